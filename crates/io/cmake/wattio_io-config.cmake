# find_package(wattio_io) gives these targets:
#
#   wattio_io::wattio_io     the library, for C and C++
#   wattio_io::mpi           with wattio_io_mpi.h, where MPI's C compiler was found before
#   wattio_io::damaris       with Damaris's calls, from C (Damaris.h) and Fortran, where MPI's C compiler was
#                            found before
#   wattio_io::fortran       the module wattio_io, where Fortran is enabled
#   wattio_io::fortran_mpi   with the module wattio_io_mpi, where both are; and wattio_io_mpi_f08, where MPI's
#                            module mpi_f08 was found before
#
# All but the first are built with the project, by its own compilers and its own MPI.

get_filename_component(wattio_io_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(wattio_io_source "${wattio_io_prefix}/share/wattio_io")

# Each target is guarded by itself: several directories of a project may ask for the package, and MPI and
# Fortran may be known to the later ones alone.

if(NOT TARGET wattio_io::wattio_io)
  add_library(wattio_io::wattio_io SHARED IMPORTED GLOBAL)
  set_target_properties(wattio_io::wattio_io PROPERTIES
    IMPORTED_LOCATION "${wattio_io_prefix}/lib/libwattio_io.so.0"
    IMPORTED_SONAME "libwattio_io.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${wattio_io_prefix}/include")
endif()

if(TARGET MPI::MPI_C AND NOT TARGET wattio_io_mpi)
  add_library(wattio_io_mpi STATIC "${wattio_io_source}/wattio_io_mpi.c")
  target_include_directories(wattio_io_mpi PUBLIC "${wattio_io_source}")
  target_link_libraries(wattio_io_mpi PUBLIC wattio_io::wattio_io MPI::MPI_C)
  set_target_properties(wattio_io_mpi PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(wattio_io::mpi ALIAS wattio_io_mpi)

  add_library(wattio_io_damaris STATIC
    "${wattio_io_source}/damaris/wattio_damaris.c"
    "${wattio_io_source}/damaris/wattio_damaris_fortran.c")
  target_include_directories(wattio_io_damaris PUBLIC "${wattio_io_source}/damaris")
  target_link_libraries(wattio_io_damaris PUBLIC wattio_io_mpi)
  set_target_properties(wattio_io_damaris PROPERTIES POSITION_INDEPENDENT_CODE ON)
  add_library(wattio_io::damaris ALIAS wattio_io_damaris)
endif()

get_property(wattio_io_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("Fortran" IN_LIST wattio_io_languages)
  set(wattio_io_new)
  if(NOT TARGET wattio_io_fortran)
    add_library(wattio_io_fortran STATIC "${wattio_io_source}/wattio_io.f90")
    target_link_libraries(wattio_io_fortran PUBLIC wattio_io::wattio_io)
    add_library(wattio_io::fortran ALIAS wattio_io_fortran)
    list(APPEND wattio_io_new wattio_io_fortran)
  endif()
  if(TARGET MPI::MPI_C AND NOT TARGET wattio_io_fortran_mpi)
    add_library(wattio_io_fortran_mpi STATIC "${wattio_io_source}/wattio_io_mpi.f90")
    target_link_libraries(wattio_io_fortran_mpi PUBLIC wattio_io_fortran wattio_io_mpi)
    if(TARGET MPI::MPI_Fortran AND MPI_Fortran_HAVE_F08_MODULE)
      target_sources(wattio_io_fortran_mpi PRIVATE "${wattio_io_source}/wattio_io_mpi_f08.f90")
      target_link_libraries(wattio_io_fortran_mpi PUBLIC MPI::MPI_Fortran)
    endif()
    add_library(wattio_io::fortran_mpi ALIAS wattio_io_fortran_mpi)
    list(APPEND wattio_io_new wattio_io_fortran_mpi)
  endif()
  foreach(target IN LISTS wattio_io_new)
    # One folder for each: the directories that make them may differ.
    set(wattio_io_modules "${CMAKE_CURRENT_BINARY_DIR}/${target}_modules")
    set_target_properties(${target} PROPERTIES
      POSITION_INDEPENDENT_CODE ON Fortran_MODULE_DIRECTORY "${wattio_io_modules}")
    target_include_directories(${target} PUBLIC "${wattio_io_modules}")
  endforeach()
endif()
