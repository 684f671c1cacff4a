# The emulated device's tests call CUDA's functions, which its own objects define: no CUDA library is
# linked, and no GPU or PyTorch is needed. Whole programs are run by tests/emulator/programs.cmake.
add_executable(emulator_tests ${emulator_tests}
  $<TARGET_OBJECTS:ac_advisor_emulator_objects> $<TARGET_OBJECTS:doctest_main>)
ac_advisor_target(emulator_tests)
target_include_directories(emulator_tests PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_include_directories(emulator_tests SYSTEM PRIVATE "${AC_ADVISOR_EMULATOR_INCLUDE}")
target_link_libraries(emulator_tests PRIVATE doctest::doctest ${CMAKE_DL_LIBS})
doctest_discover_tests(emulator_tests
  TEST_PREFIX "emulated:"
  PROPERTIES LABELS emulated FAIL_REGULAR_EXPRESSION "test cases: +0 ")

find_program(AC_ADVISOR_PYTHON3 python3)
if(AC_ADVISOR_PYTHON3 AND TARGET ac-advisor AND TARGET ac-trainer-cuda)
  add_test(NAME "emulated: our own trainer's step is its plan to the byte"
    COMMAND "${AC_ADVISOR_PYTHON3}" "${PROJECT_SOURCE_DIR}/tests/emulator/measure_test.py"
      "$<TARGET_FILE:ac-advisor>")
  set_tests_properties("emulated: our own trainer's step is its plan to the byte" PROPERTIES LABELS emulated)
endif()

# examples/dryrun/ by a Python that has PyTorch: an example, the ranks that it stands for one of, its words.
function(ac_advisor_examples python title)
  foreach(example ${ARGN})
    set(name "emulated: ${title}: ${example}")
    add_test(NAME "${name}"
      COMMAND "${python}" "${PROJECT_SOURCE_DIR}/tests/emulator/example_test.py"
        "$<TARGET_FILE:ac-advisor>" "${python}" "${PROJECT_SOURCE_DIR}" "${example}")
    set_tests_properties("${name}" PROPERTIES LABELS emulated
      SKIP_REGULAR_EXPRESSION "not run: [a-z_]+ is not installed")
  endforeach()
endfunction()

# With PyTorch for CUDA 12, where the stage `python-cuda12` put it: what needs no more than PyTorch.
file(GLOB AC_ADVISOR_TORCH_CUDA12 "${cache_dir}/python-2.10/bin/python")
if(AC_ADVISOR_TORCH_CUDA12 AND TARGET ac-advisor)
  ac_advisor_examples("${AC_ADVISOR_TORCH_CUDA12}" "examples/dryrun by CUDA 12"
      plain_step checkpointing autocast_clip_accumulate compiled cuda_graph profiled "ddp 8" "fsdp1 8"
      "fsdp2 8" "tensor_parallel 2" "pipeline 2" "context_parallel 2")
endif()

# With PyTorch 2.15, where the stage `python-2.15` put it.
file(GLOB AC_ADVISOR_TORCH_2_15 "${cache_dir}/python-2.15/bin/python")
if(AC_ADVISOR_TORCH_2_15 AND TARGET ac-advisor)
  ac_advisor_examples("${AC_ADVISOR_TORCH_2_15}" "examples/dryrun by PyTorch 2.15"
      plain_step checkpointing hf_trainer sft peft_lora qlora adam_8bit compiled moe "ddp 8" "fsdp1 8" "fsdp2 8"
      "tensor_parallel 2")
endif()

# With PyTorch, where scripts/bootstrap.sh's stage `python` put it.
file(GLOB AC_ADVISOR_TORCH_PYTHON "${cache_dir}/python-2.11/bin/python")
if(AC_ADVISOR_TORCH_PYTHON AND TARGET ac-advisor)
  add_test(NAME "emulated: a tiny model's step in PyTorch is what PyTorch itself counts"
    COMMAND "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/emulator/tiny_step.py"
      "$<TARGET_FILE:ac-advisor>" "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}")
  set_tests_properties("emulated: a tiny model's step in PyTorch is what PyTorch itself counts"
    PROPERTIES LABELS emulated)
  add_test(NAME "emulated: a gate on a program in PyTorch"
    COMMAND "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/emulator/gate_test.py"
      "$<TARGET_FILE:ac-advisor>" "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}")
  set_tests_properties("emulated: a gate on a program in PyTorch" PROPERTIES LABELS emulated)
  add_test(NAME "emulated: processes that end early, and objects of ranks, in PyTorch"
    COMMAND "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/emulator/process_test.py"
      "$<TARGET_FILE:ac-advisor>" "${AC_ADVISOR_TORCH_PYTHON}")
  set_tests_properties("emulated: processes that end early, and objects of ranks, in PyTorch"
    PROPERTIES LABELS emulated)
  foreach(subject values cudnn)
    add_test(NAME "emulated: ${subject} in PyTorch"
      COMMAND ac-advisor dryrun -- "${AC_ADVISOR_TORCH_PYTHON}"
        "${PROJECT_SOURCE_DIR}/tests/emulator/${subject}_test.py")
    # By what unittest says: dryrun itself ends with 3 where a refusal was what a test asked for.
    set_tests_properties("emulated: ${subject} in PyTorch" PROPERTIES LABELS emulated
      PASS_REGULAR_EXPRESSION "Ran [0-9]+ tests[^\n]*[\r\n]+OK" FAIL_REGULAR_EXPRESSION "FAILED")
  endforeach()
  foreach(example my_model vision_transformer dit mamba recommender t5)
    add_test(NAME "emulated: the graph of ${example} is planned as its step is counted"
      COMMAND "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}/tests/emulator/capture_test.py"
        "$<TARGET_FILE:ac-advisor>" "${AC_ADVISOR_TORCH_PYTHON}" "${PROJECT_SOURCE_DIR}" "${example}")
    set_tests_properties("emulated: the graph of ${example} is planned as its step is counted"
      PROPERTIES LABELS emulated)
  endforeach()
  # What docs/dryrun.md lists as working.
  ac_advisor_examples("${AC_ADVISOR_TORCH_PYTHON}" "examples/dryrun"
      plain_step checkpointing autocast_clip_accumulate hf_trainer sft sft_packing peft_lora qlora
      adam_8bit torchao_adam torchao_float8 compiled cuda_graph profiled liger_kernels cce moe
      "zero 8 --stage 1" "zero 8 --stage 2" "zero 8 --stage 3" "titan 8" "titan 4:2 --pp 2" "megatron_core 8" "ddp 8"
      "fsdp1 8" "fsdp2 8" "tensor_parallel 2" "pipeline 2" "context_parallel 2" "torchrun fsdp2 2")
  add_test(NAME "emulated: snapshots that PyTorch writes have its peaks and categories"
    COMMAND ac-advisor dryrun -- "${AC_ADVISOR_TORCH_PYTHON}"
      "${PROJECT_SOURCE_DIR}/tests/snapshot/check_pytorch.py" --program "$<TARGET_FILE:ac-advisor>")
  set_tests_properties("emulated: snapshots that PyTorch writes have its peaks and categories"
    PROPERTIES LABELS emulated
    PASS_REGULAR_EXPRESSION "foreach +peak [0-9,]+ B: as told" FAIL_REGULAR_EXPRESSION "B: {")
endif()
