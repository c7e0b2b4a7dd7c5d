"""What is installed has one name, headwise: the folders model/ and viz_app/ lie below it."""

from setuptools import find_packages, setup

setup(
    package_dir={"headwise.model": "model", "headwise.viz_app": "viz_app"},
    packages=[
        "headwise",
        *(f"headwise.{name}" for name in find_packages(include=["model*", "viz_app*"])),
    ],
)
