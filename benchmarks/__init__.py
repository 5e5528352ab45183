"""Measurements that you start by hand; the tests never run them."""
