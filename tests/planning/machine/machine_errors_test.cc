// SPDX-License-Identifier: Apache-2.0
//
// Invalid machine files: each gives one message with its line and a hint.
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "planning/machine/machine.h"
#include "tests/matchers.h"

namespace mtf {
namespace {

using ::mtf::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A valid machine; every case makes one line of it invalid.
constexpr char kRight[] = R"(machine right
[device]
memory 80 GiB
bandwidth 2 TB/s
latency 4 us
overlap yes
copy
  1 KiB 1 us
  1 MiB 1 TB/s
[matmul bf16]
peak 312 TFLOP/s
flops 1e9:0.5 1e12:0.9
[attention]
forward 64:0.5 128:0.8
backward 64:0.4
[link inner]
ranks 8
bandwidth 235 GB/s
latency 3 us
all_reduce over 8
  32 KiB 39 us
  1 GiB 265 GB/s
[link outer]
ranks 64
bandwidth 25 GB/s
latency 9 us
)";

struct WrongFile {
  std::string from, to;  // the part of kRight that is replaced
  std::string message;   // contained in the first line
  std::string help;
  friend std::ostream& operator<<(std::ostream& out, const WrongFile& wrong) {
    return out << (wrong.from.empty() ? wrong.to : wrong.from) << " -> "
               << wrong.to;
  }
};

class WrongMachineFile : public ::testing::TestWithParam<WrongFile> {};

TEST_P(WrongMachineFile, ErrorHasItsLineAndAHint) {
  const WrongFile& wrong = GetParam();
  ASSERT_OK(Machine::Parse(kRight, "right.machine"));
  std::string text = kRight;
  const size_t at = text.find(wrong.from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, wrong.from.size(), wrong.to);
  const auto machine = Machine::Parse(text, "wrong.machine");
  ASSERT_THAT(machine, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("\n  help     ")));
  const std::string message(machine.status().message());
  EXPECT_THAT(message.substr(0, message.find('\n')),
              AllOf(HasSubstr(wrong.message), HasSubstr("wrong.machine")));
  EXPECT_THAT(message, HasSubstr(wrong.help));
}

INSTANTIATE_TEST_SUITE_P(
    Machine, WrongMachineFile,
    ::testing::Values(
        WrongFile{"bandwidth 2 TB/s", "bandwith 2 TB/s",
                  "entry \"bandwith\" is unknown in [device] "
                  "(wrong.machine:4)",
                  "did you mean bandwidth?"},
        WrongFile{"[device]", "[devise]",
                  "section \"[devise]\" is unknown (wrong.machine:2)",
                  "did you mean device?"},
        WrongFile{"[device]", "[device",
                  "section \"[device\" does not end with \"]\"",
                  "the sections are"},
        WrongFile{"[attention]", "[atention]",
                  "section \"[atention]\" is unknown (wrong.machine:13)",
                  "did you mean attention?"},
        WrongFile{"[attention]", "[attention bf16]",
                  "section \"[attention bf16]\" is unknown", "[attention]"},
        WrongFile{"forward 64", "foward 64",
                  "entry \"foward\" is unknown in [attention]",
                  "did you mean forward?"},
        WrongFile{"backward 64:0.4\n", "",
                  "section [attention] has no \"backward\"",
                  "it needs forward, backward"},
        WrongFile{"128:0.8", "128:1.8",
                  "point \"128:1.8\" has a share of the speed of a matmul "
                  "outside of (0, 1]",
                  "1 is the speed of a matmul itself"},
        WrongFile{"[link inner]",
                  "[attention]\nforward 8:1\nbackward 8:1\n[link inner]",
                  "section [attention] is defined twice",
                  "put the entries into one section"},
        WrongFile{"[link inner]", "[link]", "section \"[link]\" is unknown",
                  "[link NAME]"},
        WrongFile{"[link outer]", "[link inner]",
                  "link \"inner\" is defined twice (wrong.machine:23)",
                  "put the entries into one section"},
        WrongFile{"[link outer]", "[device]",
                  "section [device] is defined twice",
                  "put the entries into one section"},
        WrongFile{"[matmul bf16]", "[matmul bf61]",
                  "dtype \"bf61\" is unknown (wrong.machine:10)",
                  "did you mean bf16?"},
        WrongFile{"memory 80 GiB\n", "", "section [device] has no \"memory\"",
                  "it needs memory, bandwidth, latency"},
        WrongFile{"peak 312 TFLOP/s\n", "",
                  "section [matmul bf16] has no \"peak\" (wrong.machine:10)",
                  "it needs peak"},
        WrongFile{"memory 80 GiB", "memory 80",
                  "\"80\" has no unit (wrong.machine:3)", "the units are B"},
        WrongFile{
            "memory 80 GiB", "memory 80 Gib",
            "\"80 Gib\" has the unit \"Gib\", which is not a unit of size",
            "did you mean GiB?"},
        WrongFile{
            "bandwidth 2 TB/s", "bandwidth 2 TB",
            "\"2 TB\" has the unit \"TB\", which is not a unit of bandwidth",
            "TB/s"},
        WrongFile{"latency 4 us", "latency -4 us",
                  "\"-4 us\" is not a finite number above 0", "positive"},
        WrongFile{"latency 4 us", "latency 1e308 s",
                  "\"1e308 s\" is out of range (wrong.machine:5)",
                  "the range is 0.001 ns to 3600 s"},
        WrongFile{"latency 9 us", "latency 1e-300 s",
                  "\"1e-300 s\" is out of range", "0.001 ns"},
        WrongFile{"bandwidth 2 TB/s", "bandwidth 1e9 TB/s",
                  "\"1e9 TB/s\" is out of range (wrong.machine:4)",
                  "the range is 1 B/s to 1000 TB/s"},
        WrongFile{"peak 312 TFLOP/s", "peak 1e12 PFLOP/s",
                  "\"1e12 PFLOP/s\" is out of range", "PFLOP/s"},
        WrongFile{"1 GiB 265 GB/s", "1 GiB 1 B/s",
                  "\"1 B/s\" is out of range (wrong.machine:22)", "3600 s"},
        WrongFile{"memory 80 GiB", "memory 1e30 GiB",
                  "\"1e30 GiB\" is out of range", "the range is 1 B"},
        WrongFile{"latency 4 us", "latency soon",
                  "\"soon\" does not begin with a number (wrong.machine:5)",
                  "ns, us, ms, s"},
        WrongFile{"latency 4 us", "latency 4 us\nlatency 5 us",
                  "entry \"latency\" is defined twice in [device]", "keep one"},
        WrongFile{"overlap yes", "overlap maybe",
                  "overlap is neither \"yes\" nor \"no\"",
                  "overlap with compute"},
        WrongFile{
            "1e12:0.9", "1e12:1.9",
            "point \"1e12:1.9\" has a share of the peak outside of (0, 1]",
            "1 is the peak itself"},
        WrongFile{"1e12:0.9", "0x40000000000:0.9",
                  "\"0x40000000000:0.9\" is not a point of a curve",
                  "as in \"flops 128:0.7 1024:1\""},
        WrongFile{"1e12:0.9", "1e12:0x1p-1",
                  "\"1e12:0x1p-1\" is not a point of a curve",
                  "as in \"flops 128:0.7 1024:1\""},
        WrongFile{"1e12:0.9", "inf:0.9",
                  "\"inf:0.9\" is not a point of a curve",
                  "as in \"flops 128:0.7 1024:1\""},
        WrongFile{"1e12:0.9", "1000000000000.5:0.9",
                  "point \"1000000000000.5:0.9\" has a size that is not a "
                  "whole number (wrong.machine:12)",
                  "sizes are numbers of FLOPs or elements"},
        WrongFile{"  1 GiB 265 GB/s\n", "  1.0000000001 GiB 265 GB/s\n",
                  "\"1.0000000001 GiB\" is not a whole number of bytes "
                  "(wrong.machine:22)",
                  "the nearest is \"1073741824 B\""},
        WrongFile{"  1 GiB 265 GB/s\n", "  0x40 KiB 265 GB/s\n",
                  "\"0x40 KiB\" has the unit \"x40 KiB\"", "the units are B"},
        WrongFile{"1e12:0.9", "1e6:0.9",
                  "point \"1e6:0.9\" is not larger than the one before",
                  "order the points by size"},
        WrongFile{"1e12:0.9", "1e12=0.9",
                  "\"1e12=0.9\" is not a point of a curve (wrong.machine:12)",
                  "as in \"flops 128:0.7 1024:1\""},
        WrongFile{"all_reduce over 8", "all_reduce",
                  "table \"all_reduce\" does not give its number of ranks",
                  "write \"all_reduce over 8\""},
        WrongFile{"all_reduce over 8", "all_reduse over 8",
                  "entry \"all_reduse\" is unknown in [link inner]",
                  "did you mean all_reduce?"},
        WrongFile{"all_reduce over 8", "all_reduce over 1",
                  "\"1\" is not a number of ranks of at least 2", "two ranks"},
        WrongFile{"  1 GiB 265 GB/s\n", "",
                  "the table has 1 row (wrong.machine:20)",
                  "at least two rows"},
        WrongFile{"  1 GiB 265 GB/s\n", "  1 KiB 265 GB/s\n",
                  "the size is not larger than in the row before "
                  "(wrong.machine:22)",
                  "order the rows by size"},
        WrongFile{"  1 GiB 265 GB/s\n", "  1 GiB\n",
                  "a row is a size and a time or a rate", "as in \"32 KiB"},
        WrongFile{"latency 9 us\n", "latency 9 us\n 1 KiB 1 us\n",
                  "the row does not belong to a table (wrong.machine:27)",
                  "rows follow \"copy\" or a collective"},
        WrongFile{"ranks 8\n", "",
                  "link \"inner\" does not say how many ranks it connects "
                  "(wrong.machine:16)",
                  "link \"outer\" is outside of it"},
        WrongFile{"ranks 64", "ranks 60",
                  "link \"outer\" connects 60 ranks, which is not a larger "
                  "multiple of the 8 of link \"inner\" (wrong.machine:24)",
                  "order links from the inside to the outside"},
        WrongFile{"all_reduce over 8", "all_reduce over 16",
                  "the table is for 16 ranks, but link \"inner\" connects 8 "
                  "(wrong.machine:20)",
                  "into the next outer link"},
        WrongFile{"machine right", "machine",
                  "a machine's name consists of letters, digits",
                  "\"machine h200_x8\""},
        WrongFile{"machine right", "latency 3 us",
                  "entry \"latency\" is unknown in the lines before the first "
                  "section (wrong.machine:1)",
                  "its entries are machine"},
        WrongFile{kRight, "",
                  "machine file \"wrong.machine\" has no section "
                  "[device]",
                  "memory and bandwidth"},
        WrongFile{kRight,
                  "[device]\nmemory 1 GB\nbandwidth 1 GB/s\nlatency 1 us\n",
                  "has no section [matmul DTYPE]", "[matmul bf16]"},
        WrongFile{kRight,
                  "[device]\nmemory 1 GB\nbandwidth 1 GB/s\nlatency 1 us\n"
                  "[matmul f32]\npeak 1 TFLOP/s",
                  "has no section [link NAME]", "[link nvlink]"}));

// Any text is parsed or rejected.
TEST(Machine, NoTextCrashes) {
  const std::string right = kRight;
  for (size_t i = 0; i < right.size(); ++i) {
    for (char c : {'\0', '\n', '[', ' ', '9', '-', '#', ':', '\xff'}) {
      std::string text = right;
      text[i] = c;
      const auto machine = Machine::Parse(text, "any");
      if (machine.ok()) {
        EXPECT_GE(machine->CopySeconds(1000), 0);
        EXPECT_OK(Machine::Parse(machine->ToString(), "again")) << text;
      }
    }
    (void)Machine::Parse(right.substr(0, i), "cut");
    (void)Machine::Parse(right.substr(i), "cut");
  }
  for (const char* number : {"1e999 GB/s", "nan GB/s", "inf GB/s", "0 GB/s",
                             "1e-400 GB/s", "1e308 TB/s"}) {
    EXPECT_THAT(
        Machine::Parse(absl::StrReplaceAll(right, {{"25 GB/s", number}}),
                       "any"),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("(any:")))
        << number;
  }
}

}  // namespace
}  // namespace mtf
