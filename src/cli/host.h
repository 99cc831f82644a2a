// The host of a command: a program that embeds the commands (src/python), instead of a terminal.
// The host receives what would be printed, and says when a long command should stop.
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

  // Receives the document that --json prints.
  virtual void print(const std::string& document) = 0;
  // Receives progress and remarks, which a terminal gets on stderr. Called from any thread.
  virtual void remark(const std::string& line) = 0;
  // Returns whether the command should stop. Called often, from any thread.
  virtual bool wants_stop() = 0;
};

// Makes commands run for `host` while the object exists. They end at stop points (base/stop.h). At
// most one object exists at a time.
class HostedBy {
 public:
  explicit HostedBy(Host& host);
  ~HostedBy();
  HostedBy(const HostedBy&) = delete;
  HostedBy& operator=(const HostedBy&) = delete;

 private:
  StopWhen stop_;
};

// Returns the present host; null for a terminal.
Host* host();

// Prints a line to the host, or to stderr. --quiet suppresses it.
void remark(const std::string& line);
// Prints a line about a failure to the host, or to stderr, even with --quiet.
void complain(const std::string& line);

// Prints "note: LINE" as a remark, once per command.
void note(const std::string& line);
// Forgets the notes printed so far. Called before each command, because a host runs several.
void forget_notes();

}  // namespace tandem::cli
