#!/bin/sh
# Runs once, when the database is made. The service's role is no superuser and cannot pass row level security: it would not start
# as one that can, because then nothing but its own code would keep the tenants apart.
set -eu
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres --set password="$DATABASE_PASSWORD" <<'SQL'
CREATE ROLE certloop LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD :'password';
CREATE DATABASE certloop OWNER certloop;
SQL
