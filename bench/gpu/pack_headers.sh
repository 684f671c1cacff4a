#!/usr/bin/env bash
# Packs what this project needs of the distribution and a bare machine with a GPU may lack (fmt, nlohmann-json,
# CLI11, doctest, SQLite, zlib) into FOLDER/usr: -DCMAKE_PREFIX_PATH=FOLDER/usr finds them there.
#
#   bench/gpu/pack_headers.sh FOLDER     pack.sh calls it
set -euo pipefail
folder=$1
for package in libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev doctest-dev libsqlite3-dev zlib1g-dev; do
  dpkg -s "$package" >/dev/null 2>&1 || { echo "error: $package is not installed here" >&2; exit 1; }
  dpkg -L "$package" | while read -r file; do
    case $file in
      */share/doc/* | */share/man/* | */shared_libs/*) continue ;;
      *libsqlite3.so* | *libz.so*) continue ;; # the archives are taken
    esac
    [ -f "$file" ] || continue
    mkdir -p "$folder$(dirname "$file")"
    cp -L "$file" "$folder$file"
  done
done
# What names the place where the distribution has it (doctest) says where it lies instead.
{ grep -rlZ --include='*.cmake' 'set(_IMPORT_PREFIX "/usr")' "$folder/usr" || true; } | while IFS= read -r -d '' file; do
  up=$(realpath --relative-to="$(dirname "$file")" "$folder/usr")
  sed -i "s|set(_IMPORT_PREFIX \"/usr\")|get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/$up\" ABSOLUTE)|" "$file"
done
