#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>

#include "ac_advisor/model/error.hpp"
#include "snapshot/fixtures.hpp"
#include "snapshot/pickle_writer.hpp"

using namespace ac_advisor;
using namespace ac_advisor::snapshot;
using namespace std::string_literals;

namespace {

void refuses(const std::string& bytes, const std::string& part) {
  CAPTURE(part);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_bytes(bytes, "s.pickle")),
                       doctest::Contains(part.c_str()), UserError);
}

/// {"segments": [], "device_traces": [[{"action": "alloc", "addr": address, "size": size}]]}, with
/// a frame in each of `files`.
std::string one_event(std::int64_t address, std::int64_t size,
                      const std::vector<std::string>& files = {}) {
  PickleWriter out;
  out.begin_dict();
  out.text("segments");
  out.begin_list();
  out.end_list();
  out.text("device_traces");
  out.begin_list();
  out.begin_list();
  out.begin_dict();
  out.entry("action", "alloc");
  out.entry("addr", address);
  out.entry("size", size);
  out.text("frames");
  out.begin_list();
  for (const std::string& file : files) {
    out.begin_dict();
    out.entry("filename", file);
    out.entry("name", "run");
    out.entry("line", 7);
    out.end_dict();
  }
  out.end_list();
  out.end_dict();
  out.end_list();
  out.end_list();
  out.end_dict();
  return out.take();
}

}  // namespace

TEST_CASE("every protocol of pickle tells the same snapshot") {
  const Snapshot newest = read(test::snapshot_path("protocol_5.pickle.gz"));
  REQUIRE(newest.traces.size() == 1);
  CHECK(newest.traces[0].size() == 40);  // as Python's own pickle reads it
  for (const char* name : {"protocol_0", "protocol_1", "protocol_2", "protocol_3"}) {
    CAPTURE(name);
    const Snapshot s = read(test::snapshot_path(std::string(name) + ".pickle.gz"));
    REQUIRE(s.traces.size() == 1);
    REQUIRE(s.traces[0].size() == newest.traces[0].size());
    for (std::size_t i = 0; i < s.traces[0].size(); ++i) {
      const Event &a = s.traces[0][i], &b = newest.traces[0][i];
      CHECK(a.action == b.action);
      CHECK(a.address == b.address);
      CHECK(a.size == b.size);
      CHECK(a.time_us == b.time_us);
      CHECK(s.stacks[a.stack].size() == newest.stacks[b.stack].size());
    }
    REQUIRE(s.segments.size() == newest.segments.size());
    CHECK(s.segments[0].blocks.size() == newest.segments[0].blocks.size());
    CHECK(s.settings.known);
  }
}

TEST_CASE("a pickle that would run something is refused by its name") {
  refuses("cos\nsystem\n(S'true'\ntR."s, "is not a pickle");
  refuses(
      "\x80\x02"
      "cos\nsystem\n(S'true'\ntR."s,
      "refers to os.system");
  refuses("\x80\x04\x8c\x05posix\x8c\x06system\x93."s, "refers to posix.system");
  refuses("\x80\x02}R."s, "a call (REDUCE)");
  refuses("\x80\x02}\x81."s, "an object (NEWOBJ)");
  refuses("\x80\x02ios\nsystem\n."s, "os.system");
  refuses("\x80\x04\x8f."s, "a set");
}

TEST_CASE("what is not a snapshot is told apart") {
  refuses("", "is empty");
  refuses("PK\x03\x04", "torch.save");
  refuses("{\"traceEvents\": []}", "JSON");
  refuses("<!doctype html>", "web page");
  refuses("hello", "is not a pickle");
  refuses("\x80\x04}\x94."s, "without \"segments\"");
  refuses("\x80\x04K\x01."s, "without \"segments\"");
  refuses("\x80\x09."s, "protocol 9");
}

TEST_CASE("damaged files are refused with the place") {
  const std::string whole = one_event(4096, 512);
  for (std::size_t n = 2; n + 1 < whole.size(); ++n)
    CHECK_THROWS_AS(static_cast<void>(read_bytes(whole.substr(0, n), "s")), UserError);
  refuses("\x80\x04h\x05."s, "memo 5 was never set");
  refuses("\x80\x04}r\xff\xff\xff\x7f."s, "out of range");
  refuses("\x80\x04u."s, "a mark is missing");
  refuses(
      "\x80\x04(K\x01"
      "e."s,
      "items for no list");
  refuses("\x80\x04X\xff\xff\xff\x7f"s, "cut short");
  refuses("\x1f\x8b\x08\x00\x00\x00"s, "is cut off");
  refuses("\x80\x04\xfe."s, "opcode 254");
}

TEST_CASE("a file on disk is read as its bytes are, and one that is not there is named") {
  CHECK_THROWS_WITH_AS(static_cast<void>(read("/no/such/file")), doctest::Contains("/no/such/file"),
                       UserError);
  CHECK(read(test::snapshot_path("train.pickle.gz")).segments.size() == 6);
}

TEST_CASE("frames of the emulated device are not the program's") {
  const std::string own = "/lib/emulator/python/ac_advisor_values/wrap.py";
  const Snapshot both = read_bytes(one_event(4096, 512, {own, "train.py"}), "s");
  REQUIRE(both.traces.at(0).size() == 1);
  const auto& stack = both.stacks.at(both.traces[0][0].stack);
  REQUIRE(stack.size() == 1);
  CHECK(both.text(both.frames.at(stack[0]).file) == "train.py");
  // In autograd's threads there is no frame of Python at all.
  CHECK(read_bytes(one_event(4096, 512, {own}), "s").traces.at(0).at(0).stack == 0);
}

TEST_CASE("addresses keep all of their bits") {
  for (const std::int64_t n : {std::int64_t{0}, std::int64_t{255}, std::int64_t{65536},
                               std::int64_t{1} << 40, std::int64_t{1} << 59}) {
    const Snapshot s = read_bytes(one_event(n, 7), "s");
    CHECK(s.traces.at(0).at(0).address == n);
  }
}

TEST_CASE("torch 2.0's blocks have their stacks in a history") {
  const Snapshot s = read(test::snapshot_path("torch_2_0.pickle.gz"));
  const Segment& segment = s.segments.at(0);
  CHECK(segment.blocks.at(0).address == segment.address);
  CHECK(segment.blocks.at(1).address == segment.address + segment.blocks[0].size);
  // 3 MiB + 100 B were asked for, in a block of 3 MiB + 512 B
  CHECK(segment.blocks[0].requested == 3 * 1048576 + 100);
  CHECK(segment.blocks[0].size == 3 * 1048576 + 512);
  REQUIRE(s.stacks[segment.blocks[0].stack].size() == 3);
  CHECK(s.text(s.frames[s.stacks[segment.blocks[0].stack][0]].name) == "convert");
}
