// SPDX-License-Identifier: Apache-2.0
#include "mtf/exceptions.h"

#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class Error>
absl::Status StatusOf(const Error& error) {
  return CatchExceptions([&]() -> absl::Status { throw error; });
}

TEST(CatchExceptions, ReturnsTheStatus) {
  EXPECT_OK(CatchExceptions([] { return absl::OkStatus(); }));
  EXPECT_THAT(CatchExceptions([] { return absl::DataLossError("torn"); }),
              StatusIs(absl::StatusCode::kDataLoss, "torn"));
}

TEST(CatchExceptions, LackOfMemoryOrThreadsIsResourceExhausted) {
  constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
  EXPECT_THAT(StatusOf(std::bad_alloc()),
              StatusIs(kExhausted, StartsWith("no memory on the host\n")));
  EXPECT_THAT(StatusOf(std::system_error(
                  std::make_error_code(std::errc::not_enough_memory))),
              StatusIs(kExhausted, StartsWith("no memory on the host\n")));
  EXPECT_THAT(StatusOf(std::system_error(std::make_error_code(
                  std::errc::resource_unavailable_try_again))),
              StatusIs(kExhausted, StartsWith("cannot start a thread: ")));
  EXPECT_THAT(CatchExceptions([] {
                std::vector<char> more_than_all;
                more_than_all.reserve(more_than_all.max_size() + size_t{1});
                return absl::OkStatus();
              }),
              StatusIs(kExhausted, StartsWith("no memory on the host\n")));
}

TEST(CatchExceptions, OtherExceptionsAreInternal) {
  EXPECT_THAT(StatusOf(std::out_of_range("seven")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("seven")));
  EXPECT_THAT(StatusOf(std::system_error(
                  std::make_error_code(std::errc::io_error), "a disk")),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("a disk")));
}

}  // namespace
}  // namespace mtf
