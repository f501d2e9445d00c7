// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_EXCEPTIONS_H_
#define MTF_EXCEPTIONS_H_

#include <functional>

#include "absl/status/status.h"

namespace mtf {

// Calls `body` and returns its Status. Exceptions of the standard library
// become Statuses: kResourceExhausted if memory or a thread could not be
// allocated, kInternal otherwise. The library itself throws no exceptions.
//
//   const absl::Status status = CatchExceptions([&]() -> absl::Status {
//     std::vector<char> buffer(bytes);  // may exceed the free memory
//     return Fill(buffer);
//   });
//
// Used in the outermost function of a thread, rank or program, and around work
// of one rank whose Status the other ranks wait for.
absl::Status CatchExceptions(const std::function<absl::Status()>& body);

}  // namespace mtf

#endif  // MTF_EXCEPTIONS_H_
