"""Tests of the mini-app."""
