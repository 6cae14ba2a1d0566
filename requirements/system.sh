#!/bin/sh
# The packages of the system that the tests need: a Vulkan driver in software (WebGPU), a C++ compiler (MSL, CUDA)
# and a browser (pages).
# On Debian-like systems as root they are installed; elsewhere this says what to do, and the tests that need them skip.
set -eu
[ "$(uname -s)" = Linux ] || exit 0

missing=""
drivers=$(find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name '*.json' 2>/dev/null || true)
[ -n "$drivers" ] || missing="$missing mesa-vulkan-drivers"
PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' || missing="$missing libvulkan1"
command -v clang-19 >/dev/null 2>&1 || missing="$missing clang-19"
# The page of a benchmark's report is opened in any of these.
browser=""
for name in chromium chromium-browser google-chrome chrome; do
    command -v "$name" >/dev/null 2>&1 && browser=$name
done
[ -n "$missing" ] || [ -z "$browser" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    if [ -z "$browser" ] && apt-cache show chromium >/dev/null 2>&1; then # Ubuntu has it as a snap
        missing="$missing chromium"
    fi
    [ -n "$missing" ] || exit 0
    # shellcheck disable=SC2086  # one word a package
    apt-get install -q -y --no-install-recommends $missing
else
    [ -n "$browser" ] || missing="$missing chromium"
    echo "Some tests will be skipped: missing$missing." >&2
    echo "On Debian and Ubuntu: sudo apt-get install$missing; elsewhere, your Vulkan driver and clang 16 or newer." >&2
fi
