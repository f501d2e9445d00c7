// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_STATUS_H_
#define MTF_STATUS_H_

#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// MTF_RETURN_IF_ERROR returns the Status of `expression` from the enclosing
// function unless it is OK. MTF_ASSIGN_OR_RETURN assigns the value of a
// StatusOr, or returns its Status.
//
//   MTF_RETURN_IF_ERROR(session->Initialize());
//   MTF_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse("data:2,model:2"));
#define MTF_RETURN_IF_ERROR(expression)        \
  do {                                         \
    absl::Status mtf_status_ = (expression);   \
    if (!mtf_status_.ok()) return mtf_status_; \
  } while (false)

#define MTF_CONCAT_INNER(a, b) a##b
#define MTF_CONCAT(a, b) MTF_CONCAT_INNER(a, b)
#define MTF_ASSIGN_OR_RETURN(lhs, expression)                            \
  MTF_ASSIGN_OR_RETURN_IMPL(MTF_CONCAT(mtf_statusor_, __COUNTER__), lhs, \
                            expression)
#define MTF_ASSIGN_OR_RETURN_IMPL(statusor, lhs, expression) \
  auto statusor = (expression);                              \
  if (!statusor.ok()) return std::move(statusor).status();   \
  lhs = *std::move(statusor)

namespace mtf {

// The source location of a user's call, printed as "mlp.cc:41".
struct CallSite {
  std::string file;  // base name only
  int line = 0;

  static CallSite Of(const std::source_location& location);
  std::string ToString() const;
  friend bool operator==(const CallSite&, const CallSite&) = default;
};

// A Status as programs show it to users: "INVALID_ARGUMENT dimension ...". The
// first line of the message is complete by itself; indented details follow.
std::string ErrorText(const absl::Status& status);

// The number of one-letter edits (insertion, deletion, replacement, swap of two
// neighbours) that change `a` into `b`.
int EditDistance(absl::string_view a, absl::string_view b);

// The candidate of which `word` is probably a misspelling, or "": the nearest
// one within two edits, or within one if either has fewer than five letters.
// All differences in case together count as one edit.
std::string NearestName(absl::string_view word,
                        const std::vector<std::string>& candidates);

}  // namespace mtf

#endif  // MTF_STATUS_H_
