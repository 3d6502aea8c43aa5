# Language level, warnings, sanitizers and the instruction set: one interface target that every folder links.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
# The include roots lie in the build tree (folders.cmake): as relative paths they are the same in each, and so one build
# directory takes the objects of another where the flags are the same.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${CCACHE_PROGRAM}")
endif()

add_library(lockstep_compiler INTERFACE)
set(host_cxx "$<COMPILE_LANGUAGE:CXX>")
target_compile_options(lockstep_compiler INTERFACE
  "$<${host_cxx}:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual>"
  "$<${host_cxx}:-fno-math-errno;-fno-trapping-math>")
if(LOCKSTEP_WERROR)
  target_compile_options(lockstep_compiler INTERFACE "$<${host_cxx}:-Werror>")
endif()
# The build id that ranks exchange right after MPI_Init (core/build_info.h), and no library that a program does not call:
# each costs time at its start.
target_link_options(lockstep_compiler INTERFACE -Wl,--build-id=sha1 -Wl,--as-needed)

set(lockstep_arch "${LOCKSTEP_CPU_ARCH}")
if(lockstep_arch STREQUAL "auto")
  set(lockstep_arch "")
  if(EXISTS /proc/cpuinfo AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
    if(cpu_flags MATCHES " avx512vl( |$)" AND cpu_flags MATCHES " avx512dq( |$)")
      set(lockstep_arch x86-64-v4)
    elseif(cpu_flags MATCHES " avx2( |$)" AND cpu_flags MATCHES " fma( |$)")
      set(lockstep_arch x86-64-v3)
    endif()
  endif()
endif()
if(lockstep_arch)
  target_compile_options(lockstep_compiler INTERFACE "$<${host_cxx}:-march=${lockstep_arch}>")
  if(lockstep_arch STREQUAL "x86-64-v4")
    target_compile_options(lockstep_compiler INTERFACE "$<${host_cxx}:-mprefer-vector-width=512>")
  endif()
endif()

if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_compiler INTERFACE
    "$<${host_cxx}:-fsanitize=${LOCKSTEP_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  target_link_options(lockstep_compiler INTERFACE "-fsanitize=${LOCKSTEP_SANITIZE}")
endif()
message(STATUS "lockstep: instruction set '${lockstep_arch}', sanitizers '${LOCKSTEP_SANITIZE}'")
