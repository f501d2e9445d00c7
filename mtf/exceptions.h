// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_EXCEPTIONS_H_
#define MTF_EXCEPTIONS_H_

#include <functional>

#include "absl/status/status.h"

namespace mtf {

// Calls `body` and returns its Status, or one for what the standard library
// throws there: kResourceExhausted where memory or a thread cannot be had,
// kInternal for anything else. The library itself throws nothing.
//
//   const absl::Status status = CatchExceptions([&]() -> absl::Status {
//     std::vector<char> buffer(bytes);  // may be more than there is
//     return Fill(buffer);
//   });
//
// For the outermost function of a thread, a rank or a program, and for what is
// done on one rank while others wait to hear how it went.
absl::Status CatchExceptions(const std::function<absl::Status()>& body);

}  // namespace mtf

#endif  // MTF_EXCEPTIONS_H_
