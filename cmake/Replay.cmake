# What ./replay builds: replay_list says which cases there are, replay_record plans and hashes them.
# Both are part of `all` where there are tests, so that a change which breaks them is seen.
add_executable(replay_record EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/replay/record.cpp")
ac_advisor_target(replay_record)
target_link_libraries(replay_record PRIVATE ac_advisor nlohmann_json::nlohmann_json)

if(EXISTS "${PROJECT_SOURCE_DIR}/tests/oracle/cases.cpp" AND AC_ADVISOR_TESTS)
  set_target_properties(replay_record PROPERTIES EXCLUDE_FROM_ALL OFF)
  add_executable(replay_list
    "${PROJECT_SOURCE_DIR}/tests/replay/list.cpp" "${PROJECT_SOURCE_DIR}/tests/oracle/cases.cpp")
  ac_advisor_target(replay_list)
  target_include_directories(replay_list PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_BINARY_DIR}/generated/test")
  target_link_libraries(replay_list PRIVATE ac_advisor nlohmann_json::nlohmann_json)
endif()
