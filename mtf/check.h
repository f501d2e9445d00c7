// SPDX-License-Identifier: Apache-2.0
#ifndef MTF_CHECK_H_
#define MTF_CHECK_H_

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace mtf::internal {

// Collects the message of a failed check; its destructor prints the message and
// aborts the process.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    stream_ << file << ":" << line << " check failed: " << condition << " ";
  }
  [[noreturn]] ~CheckFailure() {
    std::cerr << stream_.str() << std::endl;
    std::abort();
  }
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Gives the check expression the type void in both branches.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace mtf::internal

// Aborts the process, printing the streamed message, if `condition` is false.
// For broken invariants only: errors in user input are Statuses.
//
//   MTF_CHECK(layout.IsLegal()) << LayoutText(mesh, shape, layout);
#define MTF_CHECK(condition)                                              \
  (condition)                                                             \
      ? (void)0                                                           \
      : ::mtf::internal::Voidify() &                                      \
            ::mtf::internal::CheckFailure(__FILE__, __LINE__, #condition) \
                .stream()

#define MTF_CHECK_OP(a, op, b) \
  MTF_CHECK((a)op(b)) << "(" << (a) << " against " << (b) << ") "
#define MTF_CHECK_EQ(a, b) MTF_CHECK_OP(a, ==, b)
#define MTF_CHECK_LE(a, b) MTF_CHECK_OP(a, <=, b)
#define MTF_CHECK_LT(a, b) MTF_CHECK_OP(a, <, b)
#define MTF_CHECK_GE(a, b) MTF_CHECK_OP(a, >=, b)
#define MTF_CHECK_OK(expression)                         \
  do {                                                   \
    const absl::Status mtf_status = (expression);        \
    MTF_CHECK(mtf_status.ok()) << mtf_status.ToString(); \
  } while (false)

#endif  // MTF_CHECK_H_
