--- The exit statuses, the same in all commands: those of --help and of the manual page.

---@class ponder.cli.Status
---@field [1] integer
---@field [2] string for a list in one line
---@field [3] string a sentence

---@type ponder.cli.Status[]
return {
    { 0, "success", "Success. Of ponder diff: the outcomes are equal." },
    { 1, "failure", "It failed: a script has an error, raised one, or returned nil and a message; "
        .. "a model cannot be opened or a call failed; a log is damaged; or output cannot be "
        .. "written. Of ponder diff: the outcomes differ." },
    { 2, "usage error", "The command line is wrong: an unknown option, a wrong value, or a file, "
        .. "run or name that does not exist, is of another kind, or exists already. Of ponder "
        .. "diff: the runs cannot be compared." },
    { 75, "detached", "With --detach: the run waits for its batches; ponder resume continues "
        .. "it." },
    { 99, "missed threshold", "A --threshold of ponder eval is missed, with "
        .. "--fail-on-regression a policy's score fell, or with --require-better of ponder "
        .. "optimize the winner is not better." },
    { 124, "timeout", "The time of --timeout is up." },
    { 129, "hang-up", "SIGHUP: the terminal was closed." },
    { 130, "Ctrl-C", "Ctrl-C, or SIGINT." },
    { 141, "closed pipe", "SIGPIPE: what reads the output has ended, as head does." },
    { 143, "SIGTERM", "SIGTERM. Of ponder serve: when requests had to be cancelled." },
}
