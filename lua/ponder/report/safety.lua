--- `ponder help safety`: what each way of running something protects from whom, and what not.

return [[
What runs, and what it may do
  ponder FILE, -e CODE   a script of yours: all that you may. Lua's library cannot crash the
                         process; --timeout, --max-steps, --max-memory-mb and budgets bound it.
  prompt files           Lua's pure library: no files, programs, network. ./prompts is used only if
                         it is named, or trusted (ponder trust DIR).
  config.lua, prices.lua data: no library at all.
  script: models, tools  run because you named them: all that you may.
  --mcp SERVER           run, or asked, because you named it: all that you may, but without keys in
                         its environment. A model calls its tools unasked; what they say is data.
  resume, replay, fork   the script in the log. replay starts nothing and writes nothing that was
                         not recorded.
  ponder.sandbox.run     programs that a model wrote: a Lua state of their own, pure library, limits
                         of memory, steps and time that hold within C code too. An error of Lua
                         itself would let one out: run what may be an attack as below.
  --untrusted            a policy that a stranger wrote: see below.

ponder run|serve|eval --untrusted [--allow-model NAME,...] [--allow-read DIR,...]
                                  [--allow-net HOST,...] [--allow-tool FILE,...] FILE
  The script runs in a process of its own, which has no environment, no open file but a socket to
  its parent, no file system and no TCP (Landlock), no system call to open, execute, fork or connect
  (seccomp), and bounds of memory and processor time (rlimits). It has Lua's pure library, print,
  and the modules of ponder that compute; not those beside it. The parent does what it asks for:
    --allow-model NAME   model calls, within a budget that must be given; keys, network and log are
                         the parent's
    --allow-read DIR     read(path): files below DIR
    --allow-net HOST     fetch(url, {method, headers, body, timeout_ms}): HOST or HOST:PORT, without
                         redirects to others; the port is 80 or 443 unless it is named
    --allow-tool FILE    tool(name, arguments): FILE.lua (or NAME=FILE.lua) returns a function,
                         which runs with all that you may. Its arguments are a stranger's.
  One process holds all calls of a server's or an evaluation's functions; each has its own random
  numbers, budget and log, but they share the script's variables. While one computes the others
  wait, for at most 5 s: then the process is ended, and its calls fail with SANDBOX.
  What it does not protect from: an answer that is wrong or malicious; a policy that sends what it
  may read to whom it may ask, or spends its budget; errors of the kernel; and from load: it may use
  a processor until --timeout (default 10m) and the memory of --max-memory-mb (512).
  Where the kernel lacks Landlock or seccomp it refuses (--weak-isolation: runs with what there is).

What others do
  Redis scripts  a state with fewer functions in the server's process: as ponder.sandbox.run, but
                 with a time limit that only asks.
  nmap NSE       scripts have all that nmap may: as ponder FILE.
  OpenResty      the same; code is the administrator's.
  git            safe.directory: what lies in another's directory is not used before you say so: as
                 ponder trust.]]
