# Finds MPI according to MTF_WITH_MPI (AUTO uses MPI if it is found, ON fails
# without it, OFF does not look for it) and sets
#   MTF_HAVE_MPI     TRUE or FALSE
#   MTF_MPI_SUMMARY  what was found, or why nothing was, in one line

if(NOT MTF_WITH_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR
          "MTF_WITH_MPI is \"${MTF_WITH_MPI}\"; it must be AUTO, ON or OFF")
endif()

set(MTF_HAVE_MPI FALSE)
if(MTF_WITH_MPI STREQUAL "OFF")
  set(MTF_MPI_SUMMARY "off (MTF_WITH_MPI=OFF)")
else()
  set(MPI_CXX_SKIP_MPICXX ON)  # use the C interface; the C++ one was removed
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(MTF_HAVE_MPI TRUE)
    set(MTF_MPI_SUMMARY "on (MPI ${MPI_CXX_VERSION}, ${MPIEXEC_EXECUTABLE})")
  elseif(MTF_WITH_MPI STREQUAL "ON")
    message(FATAL_ERROR "MTF_WITH_MPI=ON, but MPI was not found; install "
                        "libopenmpi-dev and openmpi-bin, or set AUTO or OFF")
  else()
    set(MTF_MPI_SUMMARY "off (MPI was not found; install libopenmpi-dev)")
  endif()
endif()

# mtf_link_mpi(TARGET): adds the MPI communicator to the backends library.
# Without MPI, requests for it are errors that say so.
function(mtf_link_mpi target)
  if(MTF_HAVE_MPI)
    file(GLOB sources CONFIGURE_DEPENDS
         ${PROJECT_SOURCE_DIR}/backends/communicators/mpi/*.cc)
    target_sources(${target} PRIVATE ${sources})
    target_compile_definitions(${target} PRIVATE MTF_HAS_MPI=1)
    target_link_libraries(${target} PRIVATE MPI::MPI_CXX)
  endif()
endfunction()

# Settings for mpirun in tests. They are environment variables, not flags, because
# an MPI that does not know them ignores them.
set(MTF_MPI_TEST_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    OMPI_MCA_hwloc_base_binding_policy=none
    OMPI_MCA_mpi_yield_when_idle=1
    OMP_NUM_THREADS=1
    OMP_WAIT_POLICY=passive)

# add_mpi_test(NAME RANKS [COMMAND target arguments...] [TIMEOUT seconds]
#              [ENVIRONMENT variable=value...])
#
# Adds the test NAME.RANKS, which runs COMMAND (by default the target NAME) on
# RANKS ranks under the mpirun of the build.
function(add_mpi_test name ranks)
  cmake_parse_arguments(ARG "" "TIMEOUT" "COMMAND;ENVIRONMENT" ${ARGN})
  if(NOT MTF_HAVE_MPI)
    return()
  endif()
  if(NOT ARG_COMMAND)
    set(ARG_COMMAND ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  list(POP_FRONT ARG_COMMAND target)
  add_test(NAME ${name}.${ranks}
           COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                   $<TARGET_FILE:${target}> ${ARG_COMMAND})
  set_tests_properties(
    ${name}.${ranks}
    PROPERTIES ENVIRONMENT "${MTF_MPI_TEST_ENVIRONMENT};${ARG_ENVIRONMENT}"
               PROCESSORS ${ranks} TIMEOUT ${ARG_TIMEOUT}
               LABELS "mpi;np${ranks}")
endfunction()
