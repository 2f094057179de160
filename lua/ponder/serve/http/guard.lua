--- Access control: API keys, the Host header, and pages of other origins.

local errors = require "ponder.serve.http.errors"
local redact = require "ponder.base.redact"

local guard = {}

---@class ponder.serve.Key
---@field text string
---@field name string
---@field max_cost number? USD

-- The key in a line of a key file; nil: what is wrong with it.
local function read_key(line, number)
    local text, rest = line:match "^(%S+)%s*(.-)$"
    local name, cost = rest:match "^(%S*)%s*(%S*)$"
    local max_cost = tonumber(cost)
    local is_cost = max_cost and max_cost >= 0 and max_cost < math.huge
    -- A number in place of the name would be a budget that does not count.
    if not name or #text < 8 or tonumber(name) or cost ~= "" and not is_cost then
        return nil, "expected KEY [NAME [MAX_COST]], the key of 8 bytes or more, the cost >= 0"
    end
    return { text = text, name = name ~= "" and name or "key " .. number, max_cost = max_cost }
end

---Reads a key file: one key a line, with an optional name and budget in USD. `#` at the beginning
---of a line or after a space begins a comment.
function guard.read_keys(text)
    local keys, lines = {}, {}
    local number = 0
    for line in (text:gsub("^\xEF\xBB\xBF", "") .. "\n"):gmatch "(.-)\r?\n" do
        number = number + 1
        line = (" " .. line):gsub("%s#.*", ""):match "^%s*(.-)%s*$"
        if line ~= "" then
            local key, problem = read_key(line, #keys + 1)
            if key and lines[key.text] then
                problem = "the key of line " .. lines[key.text] .. " again"
            end
            if problem then
                return nil, ("line %d: %s"):format(number, problem)
            end
            keys[#keys + 1], lines[key.text] = key, number
            redact.new { key.text }
        end
    end
    if #keys == 0 then
        return nil, "it has no key"
    end
    return keys
end

---Whether two texts are equal, in a time independent of where they differ.
function guard.is_equal(a, b)
    local difference = #a ~ #b
    for i = 1, #a do
        difference = difference | (a:byte(i) ~ (b:byte(i) or 0))
    end
    return difference == 0
end

---Finds the key that a request has.
---@param keys ponder.serve.Key[]? nil: no key is needed
function guard.key(keys, r)
    if not keys or r.key then
        return keys and keys[r.key]
    end
    local given = r.headers.authorization or r.headers["x-api-key"]
    return nil, errors.new(401, "invalid_api_key", given and "unknown API key"
        or "an API key is required: Authorization: Bearer KEY, or x-api-key")
end

local NONE = {}
local LOOPBACK = { localhost = true, ["[::1]"] = true }

local function host_of(text)
    return text:match "^(%[[%x:.]+%])" or text:match "^([^:/]+)"
end

---Whether only this machine can reach an address.
---@param address string "127.0.0.1:8321", "unix:PATH"
---@return boolean? nil: it is not an address
function guard.is_local(address)
    if address:find "^unix:" then
        return true
    end
    local host, port = address:match "^(%[?.-%]?):(%d+)$"
    if not host or tonumber(port) > 65535 or host ~= host_of(host) then
        return nil
    end
    return LOOPBACK[host:lower()] or host:find "^127%.[%d.]+$" ~= nil
end

---Refuses requests that a browser sent for a page of another origin, or that name another host
---(DNS rebinding).
function guard.origin(opts, headers)
    if headers.host == opts.address and not headers.origin then
        return
    end
    local host = host_of(headers.host or "")
    if not opts.keys and not opts.address:find "^unix:" and host and not LOOPBACK[host:lower()]
        and not host:find "^127%.%d+%.%d+%.%d+$" then
        return errors.new(403, "unknown_host", ("without --key-file this server answers to "
            .. "localhost only, not to %s"):format(host))
    end
    local origin = headers.origin
    if origin and not guard.allowed_origin(opts, origin)
        and host_of(origin:gsub("^%a+://", "")) ~= host then
        return errors.new(403, "unknown_origin", "requests from pages of " .. origin
            .. " are not allowed (--cors allows an origin)")
    end
end

---Whether a text is an origin as browsers send them; `*` stands for any.
function guard.is_origin(text)
    return text == "*" or text:find "^%l[%w+.-]*://[^/%s]+$" ~= nil
end

---Whether --cors allows an origin.
function guard.allowed_origin(opts, origin)
    for _, allowed in ipairs(opts.cors or NONE) do
        if allowed == origin or allowed == "*" then
            return origin ~= nil
        end
    end
    return false
end

---Adds the headers that let a page of an allowed origin read the answer.
---@param list string[] changed
function guard.add_cors(opts, headers, list)
    if guard.allowed_origin(opts, headers.origin) then
        table.move({ "Access-Control-Allow-Origin", headers.origin, "Vary", "Origin",
            "Access-Control-Expose-Headers",
            "Retry-After, x-should-retry, x-request-id, Mcp-Session-Id" }, 1, 6, #list + 1, list)
        if headers["access-control-request-method"] then
            table.move({ "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS",
                "Access-Control-Allow-Headers", headers["access-control-request-headers"] or "",
                "Access-Control-Max-Age", "600" }, 1, 6, #list + 1, list)
        end
    end
end

return guard
