#!/bin/sh
# Mesa of Debian's backports in a folder of its own, beside the system's: `sh requirements/mesa.sh FOLDER`, and then
# `FOLDER/with PROGRAM ...` runs a program on it. Its drivers want a newer C library than many systems have, so the
# program is started by the folder's own loader; processes that it starts are the system's again, without a driver.
set -eu
folder=$1
[ -x "$folder/with" ] && exit 0
fail() {
    echo "no Mesa of its own: $1" >&2
    exit 1
}
command -v apt-get >/dev/null 2>&1 || fail "it is unpacked from Debian's packages, and there is no apt-get"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $keyring ] || fail "no $keyring (apt-get install debian-archive-keyring)"
# Where apt has Debian's packages from here.
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/*$' || true)}
[ -n "$mirror" ] || fail "apt's sources name no mirror of Debian (MIRROR=its address does)"

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
apt=$folder/apt root=$folder/root
mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts" "$root"
: >"$apt/status"
for suite in trixie trixie-backports; do
    echo "deb [signed-by=$keyring] $mirror $suite main"
done >"$apt/sources.list"
quiet() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq \
        -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts="$apt/parts" \
        -o Dir::Etc::preferencesparts="$apt/parts" -o Dir::State::Lists="$apt/lists" \
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Dir::Cache::archives="$apt/archives" \
        -o APT::Sandbox::User=root -o Debug::NoLocking=1 "$@"
}
quiet update || fail "the packages of trixie cannot be listed"
# Beside the driver what Python's own modules load: they would take the system's with this C library otherwise.
quiet install -y --no-install-recommends --download-only -t trixie-backports \
    mesa-vulkan-drivers libvulkan1 zlib1g libssl3t64 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 ||
    fail "its packages cannot be had"
for package in "$apt"/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done
rm -rf "$apt"

cat >"$folder/with" <<'END'
#!/bin/sh
root=$(cd "$(dirname "$0")" && pwd)/root
libraries=$(dirname "$root"/usr/lib/*/libvulkan_lvp.so)
export VK_DRIVER_FILES="$root/usr/share/vulkan/icd.d/lvp_icd.json" VK_ICD_FILENAMES="$root/usr/share/vulkan/icd.d/lvp_icd.json"
program=$(command -v "$1")
shift
exec "$(echo "$libraries"/ld-linux-*.so.*)" --library-path "$libraries" "$program" "$@"
END
chmod +x "$folder/with"
"$folder/with" /bin/true || { rm "$folder/with"; fail "its loader starts nothing here"; }
