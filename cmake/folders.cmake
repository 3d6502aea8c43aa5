# One target a top-level folder. Its include root holds only its own folder (a link in the build tree), so a header
# of a folder that is not linked cannot be included: the direction of dependence is a compile error, not a habit.
#
#   lockstep_folder(<name> SOURCES <files> DEPENDS <targets>)
function(lockstep_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  set(root "${CMAKE_BINARY_DIR}/include_roots/${name}")
  file(MAKE_DIRECTORY "${root}")
  file(CREATE_LINK "${CMAKE_SOURCE_DIR}/${name}" "${root}/${name}" SYMBOLIC)
  add_library(lockstep_${name} STATIC ${ARG_SOURCES})
  target_include_directories(lockstep_${name} PUBLIC "${root}")
  target_link_libraries(lockstep_${name} PUBLIC lockstep_compiler ${ARG_DEPENDS})
endfunction()
