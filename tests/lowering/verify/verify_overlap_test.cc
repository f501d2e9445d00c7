// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous collectives and their waits in program text, and their buffers
// in memory.
#include "lowering/verify/verify_overlap.h"

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/lowering/lower_test_util.h"
#include "tests/lowering/pass_test.h"

namespace mtf::testing {
namespace {

// Program text with an asynchronous collective that the verifier rejects.
struct WrongWait {
  const char* name;
  std::string text;  // after the lines below
  std::string message;
  friend std::ostream& operator<<(std::ostream& out, const WrongWait& wrong) {
    return out << wrong.name;
  }
};

std::vector<WrongWait> WrongWaits() {
  const std::string sum = "%r : f32[c:8] = all_reduce(%s) sum over{x}";
  const std::string two =
      "%r : f32[c:8], %q : f32[c:8] = all_reduce(%s, %t) sum over{x} "
      "asynchronous\n";
  const std::string planned =
      "buffers{arena:256, commit:0}\n"
      "%a : f32[b:4/x=2, c:8] @192 = input a\n"
      "%u : f32[c:8] @128 = input u\n"
      "%s : f32[c:8] unreduced{x} @0 = reduce(%a) sum\n";
  const std::string started =
      "%r : f32[c:8] @64 = all_reduce(%s) sum over{x} asynchronous\n";
  const std::string end = "wait(%r)\noutput(%r) r\n";
  return {
      {"NoWait", sum + " asynchronous\n",
       "there is no wait for an asynchronous collective"},
      {"NothingIsAsynchronous", sum + "\nwait(%r)\n",
       "%r is not a result of an asynchronous collective in flight"},
      {"WaitsTwice", sum + " asynchronous\nwait(%r)\nwait(%r)\n",
       "%r is not a result of an asynchronous collective in flight"},
      {"WaitsForAnInput", "wait(%a)\n",
       "%a is not a result of an asynchronous collective in flight"},
      {"ReadsTooEarly", sum + " asynchronous\noutput(%r) r\nwait(%r)\n",
       "%r is read before its wait"},
      {"ReadsAnotherResultTooEarly", two + "output(%q) q\nwait(%r)\n",
       "%q is read before its wait"},
      {"WaitsForTheSecondResult", two + "wait(%q)\n",
       "a wait names the first result, which is %r, not %q"},
      {"AnAsynchronousSlice",
       "%o : f32[c:8/x=4] = all_slice(%u) c over{x} asynchronous\nwait(%o)\n",
       "only collectives that communicate can be asynchronous"},
      {"FormerWord", sum + " beside\nwait(%r)\n",
       "\"beside\" is now \"asynchronous\""},
      {"AnAsynchronousMap", "%v : f32[c:8] = map(%u) relu asynchronous\n",
       "unexpected text"},
      {"WaitsForNothing", "wait()\n", "wait takes 1 or more operands, not 0"},
      {"GivesAResult", "%v : f32[c:8] = wait(%u)\n", "wait has no result"},
      {"OverwritesItsOperand",
       planned + started + "%v : f32[c:8] @0 = map(%u) relu\n" + end,
       "%v is written where an asynchronous collective uses %s"},
      {"OverwritesItsResult",
       planned + started + "%v : f32[c:8] @64 = map(%u) relu\n" + end,
       "%v is written where an asynchronous collective uses %r"},
      {"ResultOverwritesALiveValue",
       planned + "%v : f32[c:8] @64 = map(%u) relu\n" + started +
           "%w : f32[c:8] @128 = map(%v) relu\n" + end,
       "%r is written where %v is still needed"},
      {"OverwritesTheVariableThatIsSent",
       planned + "%w : f32[c:8/x=4] @w = read_variable w\n" +
           "%r : f32[c:8] @64 = all_gather(%w) c over{x} asynchronous\n" +
           "%v : f32[c:8/x=4] @w = map(%w) relu\n" + end,
       "%v is written where an asynchronous collective uses %w"},
  };
}

class WaitErrors : public ::testing::TestWithParam<WrongWait> {};

TEST_P(WaitErrors, AreRejected) {
  std::string text = "mesh{x:2}\n";
  if (!absl::StartsWith(GetParam().text, "buffers")) {
    text = R"(mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%t : f32[c:8] unreduced{x} = reduce(%a) sum
)";
  }
  const auto parsed = ParseText(text + GetParam().text);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()),
              ::testing::HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Wrong, WaitErrors, ::testing::ValuesIn(WrongWaits()),
                         [](const auto& info) { return info.param.name; });

TEST(ProgramText, PrintsAsynchronousCollectives) {
  const std::string text = R"(mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%u : f32[c:8] = input u
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%t : f32[c:8] unreduced{x} = reduce(%a) sum
%r : f32[c:8] = all_reduce(%s) sum over{x} asynchronous
%q : f32[c:8/x=4] = reduce_scatter(%t) sum c over{x} asynchronous
%v : f32[c:8] = map(%u) relu
wait(%r, %q)
output(%r) r
output(%q) q
output(%v) v
)";
  const auto parsed = ParseText(text);
  ASSERT_OK(parsed);
  EXPECT_EQ(TextOf(*parsed), text);
}

// Until its wait, the collective uses the buffers of its operand and its
// result.
constexpr char kInFlight[] = R"(
mesh{x:2}
%a : f32[b:4/x=2, c:8] = input a
%z : f32[c:8] = input z
%s : f32[c:8] unreduced{x} = reduce(%a) sum
%r : f32[c:8/x=4] = reduce_scatter(%s) sum c over{x} asynchronous
%t : f32[c:8] = map(%z) sin
%u : f32[c:8] = map(%z, %t) mul
wait(%r)
%y : f32[c:8/x=4] = map(%r) relu
output(%y) y
output(%u) u
)";

TEST(PlanBuffers, BuffersOfAsynchronousCollectivesAreNotReused) {
  auto program = ParseText(kInFlight);
  ASSERT_OK(program);
  ASSERT_OK(RunPass("plan_buffers", *program));
  const auto buffer_of = [&](absl::string_view name) {
    for (size_t v = 0; v < program->values.size(); ++v) {
      if (program->values[v].name == name) {
        return program->buffers.buffers[v].offset;
      }
    }
    ADD_FAILURE() << name;
    return int64_t{-1};
  };
  EXPECT_NE(buffer_of("t"), buffer_of("s"));
  EXPECT_NE(buffer_of("u"), buffer_of("s"));
  EXPECT_NE(buffer_of("t"), buffer_of("r"));
}

TEST(PlanBuffers, AnAsynchronousSumWorksInPlace) {
  const std::string text = AfterPass("plan_buffers", R"(
mesh{x:2}
%a : f32[b:4/x=2, c:64] = input a
%u : f32[c:64] = input u
%s : f32[c:64] unreduced{x} = reduce(%a) sum
%r : f32[c:64] = all_reduce(%s) sum over{x} asynchronous
%v : f32[c:64] = map(%u) relu
wait(%r)
%y : f32[c:64] = map(%v, %r) add
output(%y) y
)");
  const size_t s = text.find("%s :"), r = text.find("%r :");
  ASSERT_NE(s, std::string::npos);
  const auto buffer_of = [&](size_t at) {
    const size_t begin = text.find('@', at);
    return text.substr(begin, text.find(' ', begin) - begin);
  };
  EXPECT_EQ(buffer_of(s), buffer_of(r)) << text;
}

}  // namespace
}  // namespace mtf::testing
