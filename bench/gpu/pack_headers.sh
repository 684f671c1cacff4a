#!/usr/bin/env bash
# Packs what this project needs of the distribution and a bare machine with a GPU may lack (fmt,
# nlohmann-json, CLI11, doctest, SQLite) into bench/gpu/packed/usr, where the build part finds it.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf packed packed.tmp
mkdir -p packed.tmp
for package in libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev doctest-dev libsqlite3-dev; do
  dpkg -s "$package" >/dev/null 2>&1 || { echo "error: $package is not installed here" >&2; exit 1; }
  dpkg -L "$package" | while read -r file; do
    case $file in
      */share/doc/* | */share/man/* | */shared_libs/*) continue ;;
      *libsqlite3.so*) continue ;; # the archive is taken
    esac
    [ -f "$file" ] || continue
    mkdir -p "packed.tmp$(dirname "$file")"
    cp -L "$file" "packed.tmp$file"
  done
done
mv packed.tmp packed
du -sh packed
