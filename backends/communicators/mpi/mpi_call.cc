// SPDX-License-Identifier: Apache-2.0
#include "backends/communicators/mpi/mpi_call.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mtf::internal {

absl::Status MpiError(int code, absl::string_view call) {
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0;
  MPI_Error_string(code, text, &length);
  int rank = -1;
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  // `call` is source text; its arguments would not help the user.
  const absl::string_view name = call.substr(0, call.find('('));
  return absl::InternalError(
      absl::StrCat(name, " failed on rank ", rank, ": ", std::string(text)));
}

}  // namespace mtf::internal
