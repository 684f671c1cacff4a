# The page that plans in a browser: `cmake --preset web`, with Debian's emscripten. The same core as the
# program's, compiled to WebAssembly, and web/'s page around it. Written are
#   ac-advisor.html   the page as one file, which opens from a disk too
#   site/             the same as a folder to serve
#   ac-advisor-core.js, .wasm   the core alone, for the tests in node

# Headers of the host's that hold no machine's words. Its include folder itself would hide emscripten's.
set(web_headers "${PROJECT_BINARY_DIR}/generated/headers")
file(MAKE_DIRECTORY "${web_headers}")
foreach(header fmt/format.h nlohmann/json.hpp)
  find_path(folder_of "${header}" PATHS /usr/include NO_CACHE NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  get_filename_component(name "${header}" DIRECTORY)
  file(CREATE_LINK "${folder_of}/${name}" "${web_headers}/${name}" SYMBOLIC)
  unset(folder_of)
endforeach()

configure_file("${PROJECT_SOURCE_DIR}/cmake/version.hpp.in"
  "${PROJECT_BINARY_DIR}/generated/include/ac_advisor/version.hpp" @ONLY)

# What the page calls, and what that calls; the linker takes what it needs. Traces, snapshots, programs
# to run, the gate and the other renderers are not among it.
file(GLOB_RECURSE core_sources CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/src/graph/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/model/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/ir/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/evidence/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/passes/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/simulate/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/profile/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/advise/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/json/*.cpp"
  "${PROJECT_SOURCE_DIR}/reports/*.cpp")
list(FILTER core_sources EXCLUDE REGEX
  "/reports/(gate_.*|check_.*|read_.*|snapshot.*|oom.*|csv|markdown|html|html_template|examination|measurement|trace_summary_json)\\.cpp")

add_library(ac_advisor STATIC ${core_sources} "${PROJECT_SOURCE_DIR}/web/core/fmt_functions.cpp")
ac_advisor_target(ac_advisor)
ac_advisor_embed(ac_advisor WITHOUT "^(reports|sample_models/data|tools)/")
target_include_directories(ac_advisor SYSTEM PUBLIC "${web_headers}")
target_include_directories(ac_advisor PUBLIC
  "${PROJECT_SOURCE_DIR}/include"
  "${PROJECT_SOURCE_DIR}/src"
  "${PROJECT_SOURCE_DIR}"
  "${PROJECT_BINARY_DIR}/generated/include"
  "${PROJECT_BINARY_DIR}/generated")
# Exceptions as WebAssembly has them: without, each call that may throw goes through JavaScript.
target_compile_options(ac_advisor PUBLIC -fwasm-exceptions)
add_executable(ac-advisor-core
  "${PROJECT_SOURCE_DIR}/web/core/answer.cpp" "${PROJECT_SOURCE_DIR}/web/core/exports.cpp")
ac_advisor_target(ac-advisor-core)
target_link_libraries(ac-advisor-core PRIVATE ac_advisor)
# emscripten's file system in memory stays: without it every file is said to be there, and empty.
target_link_options(ac-advisor-core PRIVATE -fwasm-exceptions
  "SHELL:-s MODULARIZE=1" "SHELL:-s EXPORT_NAME=loadCore" "SHELL:-s ENVIRONMENT=worker,node"
  "SHELL:-s NODEJS_CATCH_EXIT=0" "SHELL:-s ALLOW_MEMORY_GROWTH=1" "SHELL:-s TOTAL_STACK=1MB"
  "SHELL:-s DYNAMIC_EXECUTION=0" "SHELL:-s INCOMING_MODULE_JS_API=['wasmBinary','progress']"
  "SHELL:-s EXPORTED_FUNCTIONS=['_answer','_malloc','_free']"
  "SHELL:-s EXPORTED_RUNTIME_METHODS=['UTF8ToString','stringToUTF8','lengthBytesUTF8']" --no-entry)
# Where Debian has the packages of node that emscripten's linker uses.
set_target_properties(ac-advisor-core PROPERTIES
  RULE_LAUNCH_LINK "\"${CMAKE_COMMAND}\" -E env NODE_PATH=/usr/share/nodejs")

set(parts)
foreach(part report.css sections.html elements.js figures.js charts.js pareto.js ranking.js timeline.js
    phases.js layout.js selected.js compare.js sections.js theme.js)
  list(APPEND parts "${PROJECT_SOURCE_DIR}/reports/html/${part}")
endforeach()
file(GLOB page_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/page/*")
set(page "${PROJECT_BINARY_DIR}/ac-advisor.html")
add_custom_command(OUTPUT "${page}"
  COMMAND node "${PROJECT_SOURCE_DIR}/web/build_page.js" "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}"
  DEPENDS ac-advisor-core ${parts} ${page_files} "${PROJECT_SOURCE_DIR}/web/build_page.js"
  COMMENT "Putting the page together" VERBATIM)
add_custom_target(page ALL DEPENDS "${page}")
