// Who runs a command: a terminal, or a program that has the commands inside (src/python). That
// program gets what would be printed, and says when a long command should stop.
#pragma once

#include <string>

#include "base/stop.h"

namespace tandem::cli {

class Host {
 public:
  Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  virtual ~Host() = default;

  // What --json prints.
  virtual void print(const std::string& document) = 0;
  // Progress and remarks, which a terminal gets on its error stream. From any thread.
  virtual void remark(const std::string& line) = 0;
  // Asked again and again, from any thread.
  virtual bool wants_stop() = 0;
};

// While one exists, commands run for `host`, and end at stop points (base/stop.h). One at a time.
class HostedBy {
 public:
  explicit HostedBy(Host& host);
  ~HostedBy();
  HostedBy(const HostedBy&) = delete;
  HostedBy& operator=(const HostedBy&) = delete;

 private:
  StopWhen stop_;
};

// Null where it is a terminal.
Host* host();

// To the host, or to the error stream; a remark to neither with --quiet, what is wrong always.
void remark(const std::string& line);
void complain(const std::string& line);

// "note: ...", as a remark, the first time that a command says it.
void note(const std::string& line);
// Before a command, of which a host runs several.
void forget_notes();

}  // namespace tandem::cli
