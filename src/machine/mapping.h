// Mappings: which of a machine's digits each dimension of a task grid runs along.
//
// A grid is a list of degrees; a mapping gives every digit to one of its dimensions or leaves it
// idle, so that a dimension's digits multiply to its degree. On summit:8, a grid of 8 x 2 x 3 may
// run its dimensions along the nodes, the sockets and the GPUs of a socket (contiguous), or its
// first one along the sockets and two of the node digits (strided), and so on.
//
// Text: `node:dim0, socket/2:dim1, gpu:dim1`. A part is a level, or so many of its units, outermost
// digits first, and the dimension they go to; what no part takes is idle. A machine file may name
// such mappings.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/digits.h"
#include "machine/node_layout.h"
#include "machine/number.h"

namespace tandem::machine {

struct Mapping {
  static constexpr int kIdle = -1;

  std::string name;                    // the machine file's, or empty
  std::array<int, Digits::kMax> dims;  // by digit: the grid's dimension, or kIdle
};

// All mappings of the grid, those the machine names among them; none where it has too few devices.
// Digits of one level and size are alike where the level's units are, so of mappings that exchange
// such digits only one is listed: the first dimension has the outermost digit.
std::vector<Mapping> mappings(const Machine& machine, std::span<const std::int64_t> grid);

// The one with this name or text. Throws UserError where there is none or it makes another grid.
Mapping find_mapping(const Machine& machine, std::span<const std::int64_t> grid,
                     const std::string& name);

std::string to_text(const Mapping& mapping, const Machine& machine);

// The same as a layout of an operator whose digits do `uses[d]` along dimension d of the grid.
NodeLayout node_layout(const Mapping& mapping, std::span<const DigitUse> uses);

// Where the task with these indices runs.
std::int64_t device_of(const Mapping& mapping, const Digits& digits,
                       std::span<const std::int64_t> task);

// Reads the text. `is_sized` where the levels' counts are known: then no more may be taken of a
// level than it has.
NamedMapping parse_mapping(const Place& place, std::string_view name, std::string_view text,
                           const std::vector<Level>& levels, bool is_sized);

}  // namespace tandem::machine
