-- The specs that make test and make asan run at a part of their size (spec/support/size.lua), and
-- those of one size that belong to them: TLS and redirects, hostile text on pages and in terminals.

local shell = require "shell"

local HOURS = 6

local steps = {}
local found = shell.run [[grep -lE 'require "(size|memory)"' spec/*_spec.lua >$OUT]].out
local ONE_SIZE = [[
spec/model/net_spec.lua
spec/show/page_spec.lua
spec/show/view_page_spec.lua
spec/show/report_spec.lua
spec/base/quote_spec.lua
]]
for path in (found .. ONE_SIZE):gmatch "[^\n]+" do
    steps[#steps + 1] = { path, function(s)
        local r = shell.run(("unset LUA_PATH LUA_CPATH; export PONDER_SIZE=full; "
            .. "busted --lua=/usr/bin/lua5.4 %s >$OUT 2>$ERR"):format(path), nil, HOURS * 3600)
        s:report("specs that failed", r.status, "<=", 0)
        if r.status ~= 0 then
            s.print(r.out .. r.err)
        end
    end }
end

return { size = 1, steps = steps }
