"""What is installed has one name, headwise: model/, viz_app/ and some of checkpoints/ lie below it.

Which of the checkpoints is said in pyproject.toml.
"""

from setuptools import find_packages, setup

setup(
    package_dir={f"headwise.{name}": name for name in ("model", "viz_app", "checkpoints")},
    packages=[
        "headwise",
        "headwise.checkpoints",
        *(f"headwise.{name}" for name in find_packages(include=["model*", "viz_app*"])),
    ],
)
