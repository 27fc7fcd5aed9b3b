#!/bin/sh
# The file tree of the image, made in one place for both who need it: the Dockerfile and `make image-root`.
#
#   image/assemble.sh PROGRAM FOLDER
#
# It holds what is below image/root, the program at /usr/bin/fieldcache without what only a debugger reads, and the shared libraries
# that the program names, with their loader, where they are on this machine. FOLDER is replaced, if it is such a tree or not there.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: image/assemble.sh PROGRAM FOLDER" >&2
    exit 2
fi
program=$1
folder=$2
source=$(dirname "$0")/root

for tool in ldd strip; do
    command -v "$tool" >/dev/null || { echo "image/assemble.sh needs $tool, which comes with a C compiler" >&2; exit 1; }
done
[ -f "$program" ] || { echo "there is no program $program: build it first (cargo build)" >&2; exit 1; }
if [ -e "$folder" ] && [ ! -e "$folder/usr/bin/fieldcache" ]; then
    echo "$folder is something else: name a folder that is not there yet" >&2
    exit 1
fi
libraries=$(ldd "$program")
case $libraries in
*"not found"*)
    echo "$program needs libraries that are not here:" "$libraries" >&2
    exit 1
    ;;
esac

umask 022
rm -rf "$folder"
mkdir -p "$folder/usr/bin"
(cd "$source" && find . -type f) | while read -r file; do
    install -D -m 644 "$source/$file" "$folder/$file"
done
# Names of functions stay, for the traces of defects.
strip --strip-debug -o "$folder/usr/bin/fieldcache" "$program"
chmod 755 "$folder/usr/bin/fieldcache"
# `NAME => PATH (ADDRESS)`, and `PATH (ADDRESS)` for the loader; what the kernel itself lends has no path.
echo "$libraries" | sed -n -e 's|^.*=> \(/[^ ]*\) (.*$|\1|p' -e 's|^[[:space:]]*\(/[^ ]*\) (.*$|\1|p' | while read -r library; do
    install -D -m 755 "$library" "$folder$library"
done
