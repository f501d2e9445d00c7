# The target bundle_programs builds the programs that scripts/bundle packs and
# scripts/gpu_suite runs.
set(programs
    mtf mtfrun compare_runs readme_program transformer_lm gpt2 gpu_benchmark
    collective_benchmark backends_test backends_cuda_test properties_test
    train_session_test mpi_communicator_test training_mpi_test
    device_communicator_test mtf_cuda_driver)
add_custom_target(bundle_programs)
foreach(program ${programs})
  if(TARGET ${program})
    add_dependencies(bundle_programs ${program})
  endif()
endforeach()
