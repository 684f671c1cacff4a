"""Folder and environment of the interpreter as it began, before the program changed them."""

import os

folder = os.getcwd()
environment = dict(os.environ)
