# ac_advisor_embed(<target>) compiles the data files into <target> as
# ac_advisor::embedded::files() (src/embedded/embedded.hpp). A new or changed file is picked up by
# the next build. Paths are relative to data/ for what lies there, to the root for the rest.
# ac_advisor_embed(<target> WITHOUT <regex>) leaves out what matches.

function(ac_advisor_embed target)
  cmake_parse_arguments(PARSE_ARGV 1 embed "" WITHOUT "")
  file(GLOB data_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/data"
    "${PROJECT_SOURCE_DIR}/data/*.json" "${PROJECT_SOURCE_DIR}/data/*/*.json")
  file(GLOB root_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/sample_models/*/config.json"
    "${PROJECT_SOURCE_DIR}/sample_models/data/*.txt"
    "${PROJECT_SOURCE_DIR}/reports/html/*.html"
    "${PROJECT_SOURCE_DIR}/reports/html/*.css"
    "${PROJECT_SOURCE_DIR}/reports/html/*.js")

  # The list is a file: a file that goes away leaves no newer dependency, but a changed list.
  set(paths ${data_files} ${root_files})
  if(embed_WITHOUT)
    list(FILTER paths EXCLUDE REGEX "${embed_WITHOUT}")
  endif()
  list(SORT paths COMPARE STRING)
  set(sources)
  set(lines)
  foreach(path IN LISTS paths)
    if(path IN_LIST data_files)
      set(source "${PROJECT_SOURCE_DIR}/data/${path}")
    else()
      set(source "${PROJECT_SOURCE_DIR}/${path}")
    endif()
    list(APPEND sources "${source}")
    list(APPEND lines "${path}|${source}")
  endforeach()
  list(JOIN lines "\n" lines)
  set(list_file "${PROJECT_BINARY_DIR}/generated/embedded_files.txt")
  file(CONFIGURE OUTPUT "${list_file}" CONTENT "${lines}\n" @ONLY)

  set(output "${PROJECT_BINARY_DIR}/generated/embedded.cpp")
  set(script "${PROJECT_SOURCE_DIR}/cmake/generate_embedded.cmake")
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DLIST=${list_file}" "-DOUTPUT=${output}" -P "${script}"
    DEPENDS ${sources} "${list_file}" "${script}"
    COMMENT "Embedding data files"
    VERBATIM)
  target_sources(${target} PRIVATE "${output}")
endfunction()
