# Tests of the tree itself, of whole programs, and the slow ones (label "slow", run by scripts/test --slow).

# The include directories that each folder really compiles with.
set(include_directories "")
foreach(folder core kernels layers models comm data apps)
  list(APPEND include_directories "${folder}=$<JOIN:$<TARGET_PROPERTY:lockstep_${folder},INCLUDE_DIRECTORIES>,$<COMMA>>")
endforeach()
add_test(NAME direction_of_dependence
  COMMAND skeleton/check_dependence.py --compiler "${CMAKE_CXX_COMPILER}" --source "${CMAKE_SOURCE_DIR}" ${include_directories}
  WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
add_test(NAME tree COMMAND skeleton/check_tree.py "${CMAKE_SOURCE_DIR}" WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")

add_test(NAME download_cifar10 COMMAND data/download_cifar10.py WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")

add_test(NAME cuda_toolkit COMMAND scripts/cuda_toolkit.py WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")

# Two steps in one process on the plain loops: what a build without MPI and oneDNN can do, and so can every other.
add_test(NAME train_on_reference_loops
  COMMAND resnet_train --device reference --model resnet18 --batch-size 4 --limit-train 8 --limit-test 4 --epochs 1)

# lockstep_slow_test(<name> <seconds> <script> [arguments])
function(lockstep_slow_test name seconds script)
  add_test(NAME ${name} COMMAND "${CMAKE_SOURCE_DIR}/${script}" ${ARGN} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS slow TIMEOUT ${seconds} RUN_SERIAL ON)
endfunction()
# PyTorch as the judge of the live engine, and both beside each other (that the comparisons work, not their figures).
lockstep_slow_test(parity_with_pytorch 1500 tests/parity/run)
set_tests_properties(parity_with_pytorch PROPERTIES ENVIRONMENT "PARITY_DUMP=${CMAKE_BINARY_DIR}/bin/parity_dump")
lockstep_slow_test(step_beside_pytorch 900 bench/compare_pytorch/run --pairs 1 --step-bench "${CMAKE_BINARY_DIR}/bin/step_bench")
if(LOCKSTEP_HAVE_MPI)
  lockstep_slow_test(allreduce_beside_peers 600 bench/compare_allreduce/run --turns 1 --sizes 4096 1048576
                     --programs "${CMAKE_BINARY_DIR}/bin")
endif()
if(LOCKSTEP_HAVE_CUDA)
  lockstep_slow_test(gpu_bundle 1500 tests/debian/gpu_bundle)
endif()
lockstep_slow_test(debian_13 1500 tests/debian/debian_13)
lockstep_slow_test(clean_root 2400 tests/debian/clean_root)
# What the tests of the CUDA code are worth, and what nvcc makes of its kernels. Where ci has no nvcc there is none.
if(LOCKSTEP_HAVE_CUDA AND NOT LOCKSTEP_CUDA_IS_SIMULATED)
  lockstep_slow_test(planted_faults 1500 tests/cudasim/test/planted_faults.py)
  lockstep_slow_test(cuda_registers 600 tests/cuda_reports/registers.py "${CMAKE_BINARY_DIR}")
  lockstep_slow_test(cuda_coverage 1500 tests/cuda_reports/coverage.py)
endif()
