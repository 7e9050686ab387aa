"""Figures and files made from results."""
