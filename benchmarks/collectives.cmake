if(MTF_HAVE_MPI AND TARGET mtf::backends)
  add_executable(collective_benchmark collective_benchmark.cc)
  target_link_libraries(collective_benchmark PRIVATE mtf::backends mtf_flags
                        MPI::MPI_CXX)
endif()
