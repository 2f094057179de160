-- A server of the Model Context Protocol over standard input and output for
-- spec/serve/mcp_client_spec.lua: its first argument selects its behaviour; its second names a file
-- that records its input.
--
--     ponder --no-log spec/support/mcp_server.lua MODE FILE

local json = require "ponder.json"

local mode, path = ...
local received = assert(io.open(path, "a"))
received:setvbuf "line"
io.stdout:setvbuf "line"

local function send(message)
    message.jsonrpc = "2.0"
    io.write(json.encode(message), "\n")
end

local function notify(method, params)
    send { method = method, params = params or {} }
end

local TOOLS = {}

-- 10,000 tools, 100 a page; or endless pages.
function TOOLS.many(params)
    local first = math.tointeger(tonumber(params.cursor or 1))
    local tools = json.array {}
    for i = first, first + 99 do
        tools[#tools + 1] = { name = "tool" .. i, inputSchema = { type = "object" } }
    end
    return { tools = tools, nextCursor = first < 9900 and tostring(first + 100) or nil }
end

function TOOLS.endless()
    return { tools = json.array {}, nextCursor = "again" }
end

-- MODE "tool TOOL RESULT": one tool and its result, as JSON without spaces.
local tool, answer = mode:match "^tool (%S+) ?(.*)$"

local NAMES = { "get.it", "get_it", ("x"):rep(100), "fails" }

local function tools(params)
    if TOOLS[mode] then
        return TOOLS[mode](params)
    end
    local list = json.array { tool and json.decode(tool) or nil }
    for i, name in ipairs(tool and {} or NAMES) do
        list[i] = { name = name, description = "d" .. i, inputSchema = { type = "object",
            properties = json.object {} } }
    end
    return { tools = list }
end

local function text(s)
    return { content = { { type = "text", text = s } } }
end

local function call(id, params)
    if mode == "dies" then
        io.stderr:write "out of luck\n"
        os.exit(3)
    elseif mode == "hangs" then
        return nil
    elseif tool then
        return json.decode(answer)
    elseif mode == "infinite" then
        io.write '{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1e999}}\n'
    elseif mode == "odd progress" then
        local token = params._meta.progressToken
        local function progress(fields)
            fields.progressToken = token
            return { jsonrpc = "2.0", method = "notifications/progress", params = fields }
        end
        for _, one in ipairs { progress { progress = "x" },
            progress { progress = 1, total = "x", message = { 1 } },
            { jsonrpc = "2.0", id = id, result = text "first" } } do
            io.write(json.encode(one), "\n")
        end
        return text "second"
    elseif mode == "terse" then
        return send { id = id, error = { code = 5 } }
    elseif mode == "asks" then
        send { id = "p", method = "ping" }
        send { id = 7, method = "roots/list" }
        notify("notifications/tools/list_changed")
        notify("notifications/message", { level = "error", data = "watch\27out" })
        notify("notifications/message", { level = "debug", data = "hidden" })
    elseif mode == "progress" then
        for i = 1, 3 do
            notify("notifications/progress", { progressToken = params._meta.progressToken,
                progress = i, total = 3, message = "step" .. i })
        end
    elseif params.name == "fails" then
        local result = text "no luck"
        result.isError = true
        return result
    elseif mode == "parts" then
        return { content = { { type = "image", mimeType = "image/png", data = "" },
            { type = "resource", resource = { uri = "a://b", text = "inside" } },
            { type = "resource_link", uri = "c://d", name = "there" }, { type = "new" } } }
    elseif mode == "structured" then
        return { content = json.array {}, structuredContent = { n = 1 } }
    end
    return text(id .. " " .. params.name .. " " .. json.encode(params.arguments)), mode == "asks"
end

local METHODS = { ["tools/list"] = tools }

function METHODS.initialize(params)
    if mode == "modern" then
        return nil, { code = -32601, message = "Method not found" }
    elseif mode == "future" then
        params.protocolVersion = "2099-01-01"
    end
    return { protocolVersion = params.protocolVersion, capabilities = { tools = json.object {} },
        serverInfo = { name = "fake", version = "1" }, instructions = "be kind" }
end

METHODS["server/discover"] = function()
    return { resultType = "complete", supportedVersions = { "2026-07-28" },
        capabilities = { tools = json.object {} },
        _meta = { ["io.modelcontextprotocol/serverInfo"] = { name = "modern" } } }
end

if mode == "chatty" then
    print 'Server is listening\n{"level":30,"msg":"ready"}\n[warn] \xff'
elseif mode == "broken" then
    print '{"jsonrpc":'
elseif mode == "long" then
    io.write(("x"):rep(17 * 1024 * 1024))
end
for line in io.lines() do
    received:write(line, "\n")
    local message = json.decode(line)
    if message.method == "tools/call" then
        local result = call(message.id, message.params)
        if result then
            send { id = message.id, result = result }
        end
    elseif message.id and message.method then
        local result, err = (METHODS[message.method] or error(message.method))(message.params)
        send { id = message.id, result = result, error = err }
    end
end
if mode == "stubborn" then
    os.execute "sleep 30"
end
