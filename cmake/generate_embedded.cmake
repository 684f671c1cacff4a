# cmake -DLIST=<file of lines "path|source"> -DOUTPUT=<.cpp> -P generate_embedded.cmake
# Files become character arrays: a string literal has a length limit, and escapes to get right.

file(STRINGS "${LIST}" lines)
set(arrays "")
set(table "")
set(count 0)
foreach(line IN LISTS lines)
  string(REPLACE "|" ";" line "${line}")
  list(GET line 0 path)
  list(GET line 1 source)
  file(SIZE "${source}" size)
  file(READ "${source}" bytes HEX)
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "constexpr char file_${count}[] = {${bytes}'\\0'};\n")
  string(APPEND table "    {\"${path}\", {file_${count}, ${size}}},\n")
  math(EXPR count "${count} + 1")
endforeach()

if(count EQUAL 0)
  set(body "std::span<const File> files() { return {}; }")
else()
  set(body "namespace {\n\n${arrays}\nconstexpr File all_files[] = {\n${table}};\n\n}  // namespace\n
std::span<const File> files() { return all_files; }")
endif()

file(WRITE "${OUTPUT}" "// Made by cmake/generate_embedded.cmake.
#include \"embedded/embedded.hpp\"

namespace ac_advisor::embedded {
${body}

}  // namespace ac_advisor::embedded
")
