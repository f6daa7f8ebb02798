"""Assesses a host before anything is changed: is anything wrong, and what shows it?"""
