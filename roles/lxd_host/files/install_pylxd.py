# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes our virtual environment on a host out of a bundle of packages. No pip: Debian's python3 comes without ensurepip.

Arguments: the bundle, the folder of the environment, the key that it will carry.
Standard library only, and no syntax newer than Python 3.6.
"""

import os
import shutil
import sys
import tarfile
import venv


def main():
    bundle, folder, key = sys.argv[1:4]
    fresh = folder + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(fresh)
    packages = os.path.join(fresh, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    with tarfile.open(bundle, "r:gz") as archive:
        for member in archive:
            # The bundle is our own, but a path that leaves the folder would be damage that must not spread.
            target = os.path.realpath(os.path.join(packages, member.name))
            if not member.isfile() or not target.startswith(os.path.realpath(packages) + os.sep):
                raise SystemExit(f"{bundle} has an entry that does not belong there: {member.name}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.extractfile(member) as source, open(target, "wb") as copy:
                shutil.copyfileobj(source, copy)
    with open(os.path.join(fresh, "gpulab-key"), "w") as stream:
        stream.write(key + "\n")
    # The key comes with the rename: an environment that was interrupted on its way never counts.
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(fresh, folder)
    os.unlink(bundle)
    print("installed " + key)


main()
