-- A client for the official conformance suite of the Model Context Protocol, which gives the URL of
-- its server last: lists the tools and calls each of those that the suite knows.

local mcp = require "ponder.mcp"

local ARGUMENTS = { add_numbers = { a = 5, b = 3 }, test_reconnection = {},
    test_client_elicitation_defaults = {} }

local arguments = { ... }
local session <close> = assert(mcp.open { url = arguments[#arguments], timeout_ms = 10000 })
for _, tool in ipairs(assert(session:tools())) do
    if ARGUMENTS[tool.name] then
        assert(session:call(tool.name, ARGUMENTS[tool.name]))
    end
end
