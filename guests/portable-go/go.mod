module portable

go 1.21
