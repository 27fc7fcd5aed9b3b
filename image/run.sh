#!/bin/sh
# Runs the program inside the file tree of the image, as the image's user, where there is no container engine.
#
#   image/run.sh FOLDER ARGUMENT...
#
# Only files and user are the image's: network, processes and limits are this machine's. Exit code 3: this machine does not permit it.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: image/run.sh FOLDER ARGUMENT..." >&2
    exit 2
fi
folder=$1
shift
program=/usr/bin/fieldcache
[ -x "$folder$program" ] || { echo "$folder has no $program: make the tree with make image-root" >&2; exit 1; }
HOME=/
PATH=$PATH:/usr/sbin:/sbin # of chroot, which users' paths leave out
export HOME PATH
user=$(sed -n 's/^fieldcache:x:\([0-9]*\):.*/\1/p' "$folder/etc/passwd")

if [ "$(id -u)" -eq 0 ]; then
    command -v chroot >/dev/null || { echo "chroot is missing: it comes with GNU coreutils" >&2; exit 3; }
    # 127 is what chroot says of a command that is not there, and so once it is inside.
    status=0
    chroot --userspec="$user:$user" "$folder" /not-there 2>/dev/null || status=$?
    if [ "$status" -eq 127 ]; then
        exec chroot --userspec="$user:$user" "$folder" "$program" "$@"
    fi
    echo "chroot is not permitted here: the capabilities SYS_CHROOT, SETUID and SETGID are needed; a container without them cannot" >&2
    exit 3
fi
if unshare --user --map-user="$user" --map-group="$user" true 2>/dev/null; then
    exec unshare --user --map-user="$user" --map-group="$user" --root="$folder" --wd=/ "$program" "$@"
fi
echo "neither root nor a user namespace of its own: run this as root, or permit user namespaces to users (sysctl" \
    "user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns) with unshare of" \
    "util-linux 2.38 or newer" >&2
exit 3
