// SPDX-License-Identifier: Apache-2.0
#include "mtf/exceptions.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace mtf {
namespace {

// The message needs little memory, which is available: the allocation that
// failed was large, or leaving its scope has freed memory.
absl::Status OutOfMemory() {
  return absl::ResourceExhaustedError(
      "no memory on the host\n  help     a smaller batch or model, or more "
      "ranks on more hosts; \"ulimit -v\" shows the limit of a process");
}

}  // namespace

absl::Status CatchExceptions(const std::function<absl::Status()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::length_error&) {  // more than a container may ever hold
    return OutOfMemory();
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::not_enough_memory) return OutOfMemory();
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot start a thread: ", std::string(error.code().message()),
          "\n  help     fewer ranks in one process; \"ulimit -u\" and \"ulimit "
          "-v\" show the limits of a user's threads and of a process's "
          "memory"));
    }
    return absl::InternalError(absl::StrCat("an exception: ", error.what()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("an exception: ", error.what()));
  }
}

}  // namespace mtf
