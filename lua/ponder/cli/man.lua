--- `ponder man`: prints the manual page, made when ponder was built (scripts/reference/man.lua).

local host = require "ponder.core.host"

local man = { expects = { 0, 0, "no argument" } }

man.summary = "print the manual page (ponder man | man -l -)"

man.about = [[
ponder man

Prints the manual page, ponder.1, in roff. `make install` installs it; `ponder man | man -l -` shows
it.]]

function man.run()
    io.write((host.embedded("doc/ponder.1")))
    return 0
end

return man
