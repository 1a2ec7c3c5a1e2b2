"""What depends on where the project is published: the addresses in the metadata, and the links of the README on a package index.

With REPOSITORY=https://host/owner/name, links to files become addresses in that repository. Without it, they stay relative, and there are
no addresses. And what a build in this folder takes along. Everything else is in pyproject.toml.
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildOfSources(build_py):
    """Copies the packages, without files of earlier builds: setuptools keeps those in build/ after their sources are removed.

    With Java that is removed, the planner would not be the one of which its jar is made.
    """

    def run(self) -> None:
        for package in ("lance_spark", "pyspark_lance"):
            shutil.rmtree(Path(self.build_lib, package), ignore_errors=True)
        super().run()


repository = os.environ.get("REPOSITORY", "").rstrip("/")
readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
files = f"{repository}/blob/main"
if repository:
    readme = re.sub(r"\]\((?![a-z]+:|#)", f"]({files}/", readme)
setup(
    long_description=readme,
    long_description_content_type="text/markdown",
    project_urls={
        "Homepage": repository,
        "Documentation": f"{files}/docs/index.md",
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Security": f"{repository}/security/advisories/new",
        "Changelog": f"{files}/CHANGELOG.md",
    }
    if repository
    else {},
    cmdclass={"build_py": BuildOfSources},
)
