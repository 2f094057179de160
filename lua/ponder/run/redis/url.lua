--- The address of a Redis, and its credentials.
---
---     redis[s]://[[user]:password@]host[:port][/db]         rediss: TLS
---     redis+unix://[[user]:password@]/path/of/the.sock
---
--- with ?db=N, ?password_file=FILE (its first line), ?ca_file=FILE (PEM, trusted authorities) and
--- ?timeout=10s (for each reply).
--- Parts are percent-decoded. A URL without a password takes that of $PONDER_REDIS_URL if that
--- names the same place.

local args = require "ponder.args"
local quote = require "ponder.quote"
local redact = require "ponder.base.redact"

local url = {}

---@class ponder.redis.Place
---@field name string the URL without its password, for messages
---@field base_url string for ponder.core.redis.connect
---@field socket_path string?
---@field user string?
---@field password string? never shown
---@field ca_file string?
---@field timeout_ms integer?
---@field db integer

local FORMS = "redis://[user:password@]host[:port][/db], rediss://... or redis+unix:///path?db=N"
local FIELDS = { db = true, password_file = true, ca_file = true, timeout = true }

local SCHEME = { redis = "http", rediss = "https", ["redis+unix"] = "http", unix = "http" }

local function parse(text)
    local scheme, rest, query = text:match "^([%a+]+)://([^?#]*)%??([^#]*)$"
    scheme = scheme and scheme:lower()
    local userinfo, address = (rest or ""):match "^(.*)@(.*)$"
    local host, path = (address or rest or ""):match "^([^/]*)(.*)$"
    if not SCHEME[scheme] then
        return nil, "the Redis URL must be " .. FORMS
    end
    local fields = {}
    for name, value in query:gmatch "([^&=]+)=?([^&]*)" do
        if not FIELDS[name] then
            return nil, ("the Redis URL has ?%s=; it may have db, password_file, ca_file and "
                .. "timeout"):format(name)
        end
        fields[name] = quote.percent_decode(value)
    end
    local place = { ca_file = fields.ca_file, password_file = fields.password_file }
    if fields.timeout then
        place.timeout_ms = math.ceil((args.duration(fields.timeout) or 0) * 1000)
        if place.timeout_ms < 1 then
            return nil, "the Redis URL must give ?timeout= as a time such as 10s"
        end
    end
    if userinfo then
        local user, password = userinfo:match "^([^:]*):?(.*)$"
        place.user = user ~= "" and quote.percent_decode(user) or nil
        place.password = password ~= "" and quote.percent_decode(password) or nil
    end
    local db, separator = fields.db or "", "?db="
    if scheme:find "unix" then
        if host ~= "" or path == "" then
            return nil, "the Redis URL must name a socket by its absolute path: redis+unix:///path"
        end
        place.socket_path, place.base_url = quote.percent_decode(path), "http://localhost"
        place.at = "redis+unix://" .. path
    else
        local name, port = host:match "^(%[[%x:.]+%]):?(%d*)$"
        if not name then
            name, port = host:match "^([%w._~%%-]+):?(%d*)$"
        end
        local number = name and (port == "" and 6379 or tonumber(port))
        if not name or number < 1 or number > 65535 then
            return nil, "the Redis URL must be " .. FORMS
        end
        place.base_url = ("%s://%s:%d"):format(SCHEME[scheme], name, number)
        place.at = ("%s://%s:%d"):format(scheme, name, number)
        db, separator = fields.db or path:sub(2), "/"
    end
    place.db = math.tointeger(db == "" and 0 or tonumber(db))
    if not place.db or place.db < 0 then
        return nil, "the Redis URL must name its database with a number, as in /0"
    end
    place.name = place.at .. separator .. place.db
    return place
end

---@param text string? nil: $PONDER_REDIS_URL
---@return ponder.redis.Place?
---@return string? message without the URL
function url.parse(text)
    text = text or os.getenv "PONDER_REDIS_URL"
    if not text or text == "" then
        return nil, "no Redis URL: give one, or set PONDER_REDIS_URL"
    end
    local place, message = parse(text)
    if not place then
        return nil, message
    end
    if not place.password and not place.password_file then
        local its = parse(os.getenv "PONDER_REDIS_URL" or "")
        if its and its.at == place.at then
            place.user, place.password = place.user or its.user, its.password
            place.password_file = its.password_file
        end
    end
    if place.password_file and not place.password then
        local file <close>, why = io.open(place.password_file, "rb")
        place.password = (file and file:read "l" or ""):gsub("\r$", "")
        if place.password == "" then
            return nil, ("the file with Redis' password cannot be read: %s"):format(why
                or place.password_file .. " is empty")
        end
    end
    redact.new { place.password } -- never shown in logs and events
    return place
end

---Whether a text is a Redis URL rather than a file's path.
function url.is_url(text)
    local scheme = text:match "^([%a+]+)://"
    return scheme ~= nil and SCHEME[scheme:lower()] ~= nil
end

return url
