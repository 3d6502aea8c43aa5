# Counts the lines that are run, of the CUDA code alone: all other objects are those of the build cudasim. coverage.py
# gives it to CMake as CMAKE_PROJECT_INCLUDE; what it does waits until the folders are there.
function(lockstep_count_lines)
  foreach(folder core kernels comm)
    get_target_property(sources lockstep_${folder} SOURCES)
    list(FILTER sources INCLUDE REGEX "kernels/cuda/|core/cuda_|comm/nccl_")
    # -O1: at -O0 the simulator is slow, at -O3 lines lose their numbers.
    set_property(SOURCE ${sources} TARGET_DIRECTORY lockstep_${folder} APPEND PROPERTY COMPILE_OPTIONS -O1 --coverage)
  endforeach()
endfunction()
cmake_language(DEFER CALL lockstep_count_lines)
