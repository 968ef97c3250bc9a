#!/bin/sh
# Runs a command with nvcc, CUDA_HOME and every CUDA toolkit hidden, as on a user's machine.
# Toolkit folders are covered by empty ones in a mount namespace of the command's own. Where no such
# namespace can be made, the environment alone is cleaned, and said so.
set -eu

PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v -i cuda | paste -s -d: -)
unset CUDA_HOME CUDA_PATH CUDA_ROOT CPATH LIBRARY_PATH LD_LIBRARY_PATH 2>/dev/null || true
export PATH

hide='
for folder in /usr/local/cuda* /opt/cuda* /usr/lib/cuda /usr/lib/nvidia-cuda-toolkit; do
    if [ -d "$folder" ] && [ ! -L "$folder" ]; then mount -t tmpfs none "$folder"; fi
done
for nvcc in $(command -v -a nvcc 2>/dev/null || true) /usr/local/bin/nvcc /usr/bin/nvcc; do
    if [ -f "$nvcc" ]; then mount --bind /dev/null "$nvcc"; fi
done
exec "$@"
'
if unshare --mount true 2>/dev/null; then
    exec unshare --mount sh -c "$hide" sh "$@"
elif unshare --mount --map-root-user true 2>/dev/null; then
    exec unshare --mount --map-root-user sh -c "$hide" sh "$@"
else
    echo "cannot make a mount namespace: hiding the CUDA toolkit from the environment only" >&2
    exec "$@"
fi
